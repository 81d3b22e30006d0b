// Shows changes by others: loads the page again when the server reports one, and replaces its main part.
async function update() {
  const response = await fetch(location.href);
  if (!response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const [now, next] = [document.querySelector('[data-live]'), page.querySelector('[data-live]')];
  if (!now || !next) return;
  // The focus stays on the same link.
  const focused = now.contains(document.activeElement) && document.activeElement.getAttribute('href');
  now.replaceWith(document.adoptNode(next));
  if (focused) [...next.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
}

const live = document.querySelector('[data-live]');
if (live) {
  const events = new EventSource(live.dataset.live);
  let [hasChanged, isUpdating] = [false, false];
  events.addEventListener('change', async () => {
    hasChanged = true;
    if (isUpdating) return;
    isUpdating = true;
    try {
      while (hasChanged) {
        hasChanged = false;
        await update().catch(() => {}); // the next change tries again
      }
    } finally {
      isUpdating = false;
    }
  });
  addEventListener('pagehide', () => events.close());
}
