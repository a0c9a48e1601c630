// What a conversation shows when it is left: the service worker puts it into the page that it keeps (`worker.js`).

const SCREENFUL = 20; // items, the last ones

export function start({ end }) {
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden || !end.isAtEnd) return;
    const html = [...end.list.children].slice(-SCREENFUL).map((item) => item.outerHTML).join("");
    navigator.serviceWorker.controller.postMessage({ shown: { address: location.href, html } });
  });
}
