// The saved theme, before anything is painted: the page's own program comes much later.
try {
  const theme = localStorage.getItem("kvlens.theme");
  if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
} catch { /* storage is forbidden here: then the system's theme it is */ }
