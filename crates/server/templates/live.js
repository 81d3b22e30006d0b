// Shows changes by others: loads the page again when the server reports one, and replaces its main part.
const live = document.querySelector('[data-live]');
if (live) {
  const events = new EventSource(live.dataset.live);
  let pending = false;
  events.addEventListener('change', async () => {
    if (pending) return;
    pending = true;
    try {
      const response = await fetch(location.href);
      if (!response.ok || response.redirected) return;
      const page = new DOMParser().parseFromString(await response.text(), 'text/html');
      const [now, next] = [document.querySelector('[data-live]'), page.querySelector('[data-live]')];
      if (!now || !next) return;
      // The part has only links. The focus stays on the same one.
      const focused = now.contains(document.activeElement) && document.activeElement.getAttribute('href');
      now.replaceWith(document.adoptNode(next));
      if (focused) [...next.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
    } finally {
      pending = false;
    }
  });
  addEventListener('pagehide', () => events.close());
}
