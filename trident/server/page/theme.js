// Runs before the page is drawn, so that it does not flash in the other theme.
const theme = localStorage.getItem("trident-theme");
if (theme === "light" || theme === "dark") document.documentElement.dataset.theme = theme;
