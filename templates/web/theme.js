{# Before the first paint: the theme that was chosen here, if one was; and the reader's time zone for the server. #}
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
  if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
})();
