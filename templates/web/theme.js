{# Before the first paint: the theme that was chosen here, if one was; and the reader's time zone for the server. #}
(() => {
  const chosen = localStorage.getItem("theme");
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
  const tellZone = () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  };
  // A browser that has just been opened takes a while to know it, and has told it if somebody signed in here before.
  if (localStorage.getItem("owner")) addEventListener("load", tellZone);
  else tellZone();
})();
