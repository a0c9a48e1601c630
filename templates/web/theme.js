{# Before the first paint: the theme that was chosen here, if one was; and the reader's time zone for the server. #}
{# A browser that was just opened takes a while to know the zone, and has told it if somebody signed in here before. #}
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  const tellZone = () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  };
  if (localStorage.getItem("owner")) document.addEventListener("DOMContentLoaded", tellZone);
  else tellZone();
})();
