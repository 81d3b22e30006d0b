// Keeps a form that a person sent, for the next page of this tab, which is an error if the form did not arrive.
const UNSENT = 'unsent';
const [kept, again] = [sessionStorage.getItem(UNSENT), document.querySelector('[data-unsent]')];
sessionStorage.removeItem(UNSENT);
if (kept && again) {
  const { to, fields } = JSON.parse(kept);
  again.action = to;
  for (const [name, value] of fields) {
    const input = again.elements[name] ?? again.appendChild(Object.assign(document.createElement('input'), { name }));
    input.value = value;
    input.hidden = name !== 'text';
  }
  again.hidden = false;
}
addEventListener('submit', ({ target }) => {
  const fields = [...new FormData(target)];
  if (!fields.some(([name]) => name === 'text')) return;
  try {
    sessionStorage.setItem(UNSENT, JSON.stringify({ to: target.action, fields }));
  } catch {
    // A tab keeps about 5 MB.
  }
});

// Shows times in the time zone of the reader.
const DATE = { day: 'numeric', month: 'short', year: 'numeric' };
const CLOCK = { hour: '2-digit', minute: '2-digit', timeZoneName: 'short' };

function localize(page) {
  for (const time of page.querySelectorAll('time')) {
    const at = new Date(time.dateTime);
    const day = at.toLocaleDateString('en-GB', DATE);
    const clock = at.toLocaleTimeString('en-GB', CLOCK);
    time.title = time.dateTime;
    time.textContent = time.dataset.day === day ? clock : `${day}, ${clock}`;
  }
}
localize(document);

// Warns before unsaved text is left, and has keys.
const editor = document.querySelector('textarea[name=text]');
const isChanged = () => editor && editor.value !== editor.defaultValue;
let isSaving = false;
addEventListener('submit', () => (isSaving = true));
addEventListener('pageshow', () => (isSaving = false));
addEventListener('beforeunload', (event) => isChanged() && !isSaving && event.preventDefault());

// Puts the text of a file into the form.
const upload = document.querySelector('#upload');
if (upload) {
  upload.parentElement.hidden = false;
  upload.addEventListener('change', async () => {
    const [file] = isChanged() && !confirm('Replace the text that is not saved?') ? [] : upload.files;
    const { name } = upload.form.elements;
    let problem = '';
    try {
      if (file) editor.value = new TextDecoder('utf-8', { fatal: true }).decode(await file.arrayBuffer());
      if (file && name) name.value ||= file.name;
    } catch {
      problem = `“${file.name}” is no text in UTF-8.`;
    }
    upload.nextElementSibling.textContent = problem;
    if (problem) upload.value = '';
  });
}

const isText = ({ target }) => target.matches('input:not([type=checkbox]), textarea, select');
const press = (selector) => document.querySelector(selector);
addEventListener('keydown', (event) => {
  const hasModifier = event.ctrlKey || event.metaKey || event.altKey;
  const key = event.key.toLowerCase();
  let does = null;
  if ((event.ctrlKey || event.metaKey) && key === 's') {
    does = editor && (() => editor.form.requestSubmit());
  } else if (!hasModifier && !isText(event)) {
    const [search, edit, keys] = [press('[type=search]'), press('a[href*="/edit?"]'), press('#keys')];
    if (key === '/') does = search && (() => search.focus());
    if (key === 'e') does = edit && (() => edit.click());
    if (key === '?') does = () => (keys.open ? keys.close() : keys.showModal());
  }
  if (!does) return;
  event.preventDefault();
  does();
});

// Shows changes by others: loads the page again when the server reports one, and replaces its main part.
const part = (page) => page.querySelector('[data-live]');
const script = (page) => page.querySelector('script').getAttribute('src');

async function update() {
  const response = await fetch(location.href);
  if (!response.ok || response.redirected) return;
  const page = new DOMParser().parseFromString(await response.text(), 'text/html');
  const [now, next] = [part(document), part(page)];
  if (!now || !next) return;
  // Another version of the server has another script.
  if (script(page) !== script(document)) return location.reload();
  // The focus stays on the same link.
  const focused = now.contains(document.activeElement) && document.activeElement.getAttribute('href');
  localize(next);
  now.replaceWith(document.adoptNode(next));
  if (focused) [...next.querySelectorAll('a')].find((link) => link.getAttribute('href') === focused)?.focus();
}

// The streams of a browser, which has six connections to a host. All tabs of a memory share one.
const STREAMS = 4;
const RETRY = 30_000;

function follow(address) {
  const tabs = new BroadcastChannel(address);
  let [hasChanged, isUpdating] = [false, false];
  let last = null; // the last event of the stream of this tab
  let stop = () => {};

  async function load() {
    hasChanged = true;
    if (isUpdating) return;
    isUpdating = true;
    while (hasChanged) {
      hasChanged = false;
      await update().catch(() => {}); // the next change tries again
    }
    isUpdating = false;
  }

  function show({ isChange, state }) {
    if (isChange || !state || state !== part(document)?.dataset.state) load();
  }

  tabs.onmessage = ({ data }) => {
    if (data !== 'joined') show(data);
    else if (last) tabs.postMessage({ ...last, isChange: false });
  };

  /** Follows the stream until this tab is hidden, and reports its events to the other tabs. */
  function stream(end) {
    let events;
    const report = (event) => {
      last = { isChange: event.type === 'change', state: event.data };
      tabs.postMessage(last);
      show(last);
    };
    const open = () => {
      events = new EventSource(address);
      events.addEventListener('state', report);
      events.addEventListener('change', report);
      // Browsers do not try again after a response that is no stream.
      events.onerror = () => events.readyState === EventSource.CLOSED && setTimeout(() => end.aborted || open(), RETRY);
    };
    open();
    return new Promise((resolve) => {
      end.addEventListener('abort', () => {
        last = null;
        resolve(events.close());
      });
    });
  }

  /** Waits for one of the streams. */
  async function inPlace(end, place = 0) {
    if (place === STREAMS) return navigator.locks.request('live 0', { signal: end }, () => stream(end));
    const run = (lock) => lock && stream(end).then(() => true);
    return (await navigator.locks.request(`live ${place}`, { ifAvailable: true }, run)) || inPlace(end, place + 1);
  }

  function start() {
    const ending = new AbortController();
    const end = ending.signal;
    stop = () => ending.abort();
    tabs.postMessage('joined');
    // Locks need TLS or localhost.
    if (!navigator.locks) return stream(end);
    navigator.locks.request(`live ${address}`, { signal: end }, () => end.aborted || inPlace(end)).catch(() => {});
  }

  const change = () => {
    stop();
    if (!document.hidden) start();
  };
  document.addEventListener('visibilitychange', change);
  addEventListener('pageshow', (event) => event.persisted && change());
  addEventListener('pagehide', () => stop());
  if (!document.hidden) start();
}

if (part(document)) follow(part(document).dataset.live);
