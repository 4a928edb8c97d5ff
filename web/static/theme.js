// A classic script in the head, before anything is painted, so that a page in the chosen theme does
// not flash in the other one. Without a choice the system's theme applies.
(() => {
  try {
    const theme = localStorage.getItem("superd-theme");
    if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
  } catch {
    // A browser that keeps nothing shows the system's theme.
  }
})();
