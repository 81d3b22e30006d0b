// Signs in with the TypeScript SDK, and creates files. Usage: node sign_in_client.mjs FOLDER URL PERSON FILES

import { createRequire } from 'node:module';
import { setTimeout } from 'node:timers/promises';

const [folder, url, person, files] = process.argv.slice(2);
const sdk = (name) => createRequire(`${folder}/`)(`@modelcontextprotocol/sdk/client/${name}`);
const [{ Client }, { StreamableHTTPClientTransport }, { UnauthorizedError }] = ['index.js', 'streamableHttp.js', 'auth.js'].map(sdk);
const callback = 'http://127.0.0.1:9/callback';
const known = {};
let code;

/** What a person does in a browser: signs in, and consents. */
async function visit(address) {
  const cookies = {};
  let [at, init] = [String(address), {}];
  while (!at.startsWith(callback)) {
    const cookie = Object.entries(cookies).map((pair) => pair.join('=')).join('; ');
    const page = await fetch(at, { ...init, redirect: 'manual', headers: { cookie } });
    for (const given of page.headers.getSetCookie()) {
      const [name, value] = given.split(';')[0].split('=');
      cookies[name] = value;
    }
    const next = page.headers.get('location');
    if (next) {
      [at, init] = [new URL(next, at).href, {}];
      continue;
    }
    const text = await page.text();
    const [, prompt] = /name="prompt" value="(\w+)"/.exec(text);
    at = new URL(/action="([^"]+)"/.exec(text)[1], at).href;
    init = { method: 'POST', body: new URLSearchParams({ prompt, login: person, password: 'x' }) };
  }
  code = new URL(at).searchParams.get('code');
}

const authProvider = {
  redirectUrl: callback,
  clientMetadata: {
    client_name: 'test',
    redirect_uris: [callback],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'none',
    scope: 'openid offline_access memory',
  },
  clientInformation: () => known.client,
  saveClientInformation: (client) => (known.client = client),
  tokens: () => known.tokens,
  saveTokens: (tokens) => (known.tokens = tokens),
  codeVerifier: () => known.verifier,
  saveCodeVerifier: (verifier) => (known.verifier = verifier),
  redirectToAuthorization: visit,
};

async function connect() {
  const transport = new StreamableHTTPClientTransport(new URL(url), { authProvider });
  const client = new Client({ name: 'test', version: '1' });
  try {
    await client.connect(transport);
    return client;
  } catch (error) {
    if (!(error instanceof UnauthorizedError)) throw error;
    await transport.finishAuth(code);
    return connect();
  }
}

const client = await connect();
const call = async (input) => (await client.callTool({ name: 'memory', arguments: input })).content[0].text;
for (let number = 0; number < Number(files); number++) {
  await call({ command: 'create', path: `/memories/${person}${number}.md`, file_text: '' });
  await setTimeout(2000);
}
console.log(await call({ command: 'view', path: '/memories' }));
await client.close();
