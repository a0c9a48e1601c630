// What a conversation shows when the person leaves: the service worker puts it into the kept page (`worker.js`), and reads that
// page again if it has grown.

const SCREENFUL = 20; // the last items

export function start(page) {
  const files = document.getElementById("artifacts");
  let kept = page.beginning.last;
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden) return;
    const items = page.end.isAtEnd ? [...page.end.list.children].slice(-SCREENFUL) : [];
    const html = items.map((item) => item.outerHTML).join("");
    const listed = files.innerHTML.replaceAll('aria-pressed="true"', 'aria-pressed="false"');
    const { last } = page.state;
    const isNews = last > kept;
    const shown = { address: location.href, html, files: isNews ? listed : undefined, last, isNews };
    kept = last;
    navigator.serviceWorker.controller.postMessage({ shown });
  });
}
