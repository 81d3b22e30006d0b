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
      if (now && next && !now.contains(document.activeElement)) now.replaceWith(document.adoptNode(next));
    } finally {
      pending = false;
    }
  });
  addEventListener('pagehide', () => events.close());
}
