"""The tables of the model's card, in Markdown, from what the run and the measurements left behind.

    python card.py --run DIR > card.md
"""

import argparse
import json


def table(head, rows):
    line = lambda cells: "| " + " | ".join(f"{c:.2f}" if isinstance(c, float) else str(c) for c in cells) + " |"
    return "\n".join([line(head), "|" + "---|" * len(head), *map(line, rows)]) + "\n"


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--run", required=True)
    a = p.parse_args()
    with open(f"{a.run}/scores.json") as f:
        s = json.load(f)
    with open(f"{a.run}/run.json") as f:
        r = json.load(f)
    n = s["n"]
    both = lambda name: [(lang, s[f"{name} {lang}"]) for lang in ("en", "zh") if f"{name} {lang}" in s]

    print(f"## The run\n\n{r['parameters']:,} parameters; {r['tokens'] / 1e6:.2f} M tokens in {r['documents']:,} documents; {r['minutes']:.0f} minutes of training; "
          f"seed {r['seed']}; stages (tokens a row: M tokens) {r['stages']}.  \nHash over all documents: `{r['data_sha256']}`\n")

    print(f"## Answers with the whole cache\n\nShare of questions of all kinds answered word for word, n = {n} a cell; columns: depth of the needle.\n")
    for lang, x in both("full"):
        depths = list(next(iter(x.values())))
        print(table([f"{lang}, tokens", *depths], [[t, *c.values()] for t, c in x.items()]))

    print(f"## Kinds of questions\n\nn = {n} a cell.\n")
    for lang, x in both("kinds"):
        print(table([lang, *x], [[k, *(c[k] for c in x.values())] for k in next(iter(x.values()))]))

    print(f"## The cache cut\n\nn = {n} a cell. *seen*: cut when the question has been read; *later*: cut after the story.\n")
    for lang, by in both("evict"):
        for t, x in by.items():
            budgets = sorted({int(k.split()[2]) for k in x if len(k.split()) == 3})
            rows = [[f"{w} {p}", *(x[f"{w} {p} {b}"] for b in budgets)] for w in ("seen", "later") for p in ("window", "streaming", "snap", "random")]
            print(table([f"{lang}, {t} tokens; whole {x['seen full']:.2f}", *(f"{b} kept" for b in budgets)], rows))

    for name, title, note in (
        ("without", "The needle dropped", "all tokens of its sentence (or its value) dropped everywhere, or in one KV head (layer.head) alone"),
        ("quantised", "The cache quantised", "of the prompt: symmetric by token, and after KIVI"),
        ("changed", "The story changed", "the value in the story replaced by another one"),
        ("nats", "The first tokens", "nats a token of held-out text after the middle, with the cache whole and without its first token or first four"),
    ):
        if got := both(name):
            print(f"## {title}\n\n{note}; n = {n}.\n")
            print(table(["", *(lang for lang, _ in got)], [[k, *(float(x[k]) for _, x in got)] for k in got[0][1]]))

    if got := both("layers"):
        print(f"## A layer left out\n\nShare of questions still right and nats a token of held-out text; n = {n}.\n")
        print(table(["layer", *(f"{lang}, {k}" for lang, _ in got for k in ("right", "nats"))],
                    [[k, *(float(x[k][m]) for _, x in got for m in ("right", "nats"))] for k in got[0][1]]))

    print(f"## Heads\n\nMean attention, n = {n}: on the answer when its first token is due (value); in lists, on what is to be copied; over the story, on "
          "the first token and on the last eight; in random tokens said twice, on what followed the same token (induction) and on the same token (echo).\n")
    for lang, x in both("heads"):
        keys = list(x)
        rows = [[f"{l}.{h}", *(x[k][l][h] for k in keys)] for l in range(len(x[keys[0]])) for h in range(len(x[keys[0]][l]))]
        print(table([f"{lang}, layer.head", *keys], rows))

    print("## Free stories at temperature 0.8, unedited\n")
    for lang, x in both("free"):
        for text in x:
            print("* " + text.replace("\n", " ⏎ "))
        print()


if __name__ == "__main__":
    main()
