// An identity provider without accounts: anybody signs in by any name. Usage: node sign_in_provider.mjs FOLDER PORT RESOURCE SECONDS

import { createRequire } from 'node:module';

const [folder, port, resource, seconds] = process.argv.slice(2);
const { default: Provider } = createRequire(`${folder}/`)('oidc-provider');
const provider = new Provider(`http://127.0.0.1:${port}`, {
  features: {
    registration: { enabled: true },
    devInteractions: { enabled: true },
    resourceIndicators: {
      enabled: true,
      defaultResource: () => resource,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'memory', audience: resource, accessTokenFormat: 'jwt', accessTokenTTL: Number(seconds) }),
    },
  },
  scopes: ['openid', 'offline_access', 'memory'],
  clientDefaults: { token_endpoint_auth_method: 'none' },
  issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
});
provider.listen(Number(port), '127.0.0.1');
