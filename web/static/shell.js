// Says so when the page's program has died or does not come. A Go panic ends the program but leaves the page standing,
// with buttons that do nothing; then only this script is left to speak. It loads its words at once, while they can still
// be had.
(() => {
  const base = document.currentScript.src;
  const texts = fetch(new URL("shell.json", base)).then((r) => r.json()).catch(() => ({}));
  let shown = null; // the notice on the page
  let leaving = false;
  let started = false; // from then on the program says which language the page has
  addEventListener("pagehide", () => { leaving = true; });

  const dead = (detail) => say("dead", "Dead", "DeadHint", detail);

  // say puts a notice up: that of a dead program for good, in place of one that was only slow.
  async function say(id, title, hint, detail) {
    if (leaving || shown === "dead" || shown === id) return;
    shown = id;
    const all = await Promise.race([texts, new Promise((done) => setTimeout(done, 1000, {}))]);
    if (shown !== id) return;
    hide();
    const asked = new URLSearchParams(location.search).get("lang") ?? navigator.language;
    const lang = (started ? document.documentElement.lang : asked).startsWith("zh") ? "zh" : "en";
    const text = all[lang] ?? {};
    const box = document.createElement("div");
    box.className = "shell-dead";
    box.dataset.testid = id;
    box.setAttribute("role", id === "dead" ? "alertdialog" : "alert");
    box.setAttribute("aria-label", text[title] ?? "");
    box.lang = lang;
    const head = document.createElement("h2");
    head.textContent = text[title] ?? "";
    const word = document.createElement("p");
    word.textContent = text[hint] ?? "";
    const button = document.createElement("button");
    button.textContent = text.Reload ?? "↻";
    button.addEventListener("click", () => location.reload());
    const cause = document.createElement("pre");
    cause.textContent = String(detail ?? "");
    box.append(head, word, button, cause);
    document.body.append(box);
    if (id === "dead") button.focus();
  }

  const hide = () => document.querySelector(".shell-dead")?.remove();

  // Until the program has taken the page over, ten seconds in which its progress stands still are worth a word.
  const patience = 10_000;
  let progress = "";
  let since = performance.now();
  const watch = setInterval(() => {
    const phase = document.querySelector(".app")?.dataset.phase;
    const gone = shown === "dead" || phase && phase !== "starting";
    const now = document.getElementById("app-wasm-loader-label")?.textContent ?? "";
    if (gone) clearInterval(watch);
    if (gone || now !== progress) {
      [progress, since] = [now, performance.now()];
      if (shown === "slow") {
        shown = null;
        hide();
      }
    } else if (performance.now() - since >= patience) {
      say("slow", "Slow", "SlowHint");
    }
  }, 1000);

  // The program's own loader is defined by a deferred script; when the document is ready it is there.
  document.addEventListener("DOMContentLoaded", () => {
    const run = globalThis.Go?.prototype.run;
    if (!run) return dead();
    Go.prototype.run = function (instance) {
      started = true;
      return run.call(this, instance).then(() => dead(), dead);
    };
  });
  const load = WebAssembly.instantiateStreaming;
  if (load) {
    WebAssembly.instantiateStreaming = (...args) => load.apply(WebAssembly, args).catch((err) => {
      dead(err);
      throw err;
    });
  }
  addEventListener("error", (event) => {
    if (event.error instanceof WebAssembly.RuntimeError) dead(event.error);
  });
})();
