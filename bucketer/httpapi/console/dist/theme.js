// Sets the theme before anything is drawn, or a dark page would flash white. It is a file of its own
// because the policy of the page allows no script inside it. preferences.ts writes what is read here.
(function () {
  try {
    var kept = JSON.parse(localStorage.getItem('carillon.console') || '{}');
    if (kept.theme === 'light' || kept.theme === 'dark') {
      document.documentElement.dataset.theme = kept.theme;
    }
  } catch {
    // storage is closed or holds something else: the system's theme it is
  }
})();
