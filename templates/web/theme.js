{# Sets the chosen theme before the first paint, and the reader's time zone for the server. #}
{# A browser that was just opened needs a while to find the zone. After a sign-in here the cookie exists, so that can wait. #}
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
