{# Sets the chosen theme before the first paint, and the reader's time zone for the server. #}
{# The server names the theme. A page that this browser kept may be older than the choice, and some pages know nobody. #}
(() => {
  const { dataset } = document.documentElement;
  const [person, version] = (dataset.appearance ?? "").split(" ");
  const kept = (localStorage.getItem("theme") ?? "").split(" ");
  if (kept.length >= 3 && (!person || (kept[0] === person && Number(kept[1]) > Number(version)))) {
    if (kept[2]) dataset.theme = kept[2];
    else delete dataset.theme;
  } else if (person) localStorage.setItem("theme", `${person} ${version} ${dataset.theme ?? ""}`);
  {# A browser that was just opened needs a while to find the zone. After a sign-in here the cookie exists, so that can wait. #}
  const tellZone = () => {
    const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
    if (zone) document.cookie = `zone=${zone}; path=/; max-age=31536000; samesite=lax`;
  };
  if (localStorage.getItem("owner")) document.addEventListener("DOMContentLoaded", tellZone);
  else tellZone();
})();
