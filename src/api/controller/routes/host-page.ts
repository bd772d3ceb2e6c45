import { asPages, pageHeaders } from '../../listener/answers.ts'
import { pageSchema } from '../../listener/reference.ts'
import { servePageAssets } from './page-assets.ts'
import type { App } from '../../listener/app.ts'
import type { Role } from '../clients.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves the page of the host: its VMs and its capacity. The page asks for both, so it holds nothing of them. */
export function hostPageRoutes(app: App, dependencies: ApiDependencies): void {
  const page = pageSchema('getHostPage', 'The host as a page')
  const { 200: shown, ...refused } = page.response
  const schema = {
    ...page,
    response: { 200: shown, ...asPages(refused) },
    tags: ['Host'],
    description:
      'Lists the VMs with their state, error, memory and last traffic, shows the capacity of the host, and follows changes; the same as `/ui/`. ' +
      'It reads `/v1/sync`, `/v1/vms` and `/v1/events`. A client that may only open consoles gets a page that opens them.',
  }
  const pages = [
    ['/ui', schema],
    ['/ui/', { hide: true }],
  ] as const
  for (const [path, described] of pages) {
    app.get(path, { schema: described }, async ({ peer }, reply) => {
      reply.type('text/html; charset=utf-8').headers(pageHeaders(policy))
      return hostPage(ROLES.find((role) => role === peer.role) ?? 'reader')
    })
  }
  app.get('/', { schema: { hide: true } }, async (_request, reply) => reply.redirect('/ui/'))
  servePageAssets(app, dependencies, ['vms.js', 'vms.css'])
}

const ROLES: readonly Role[] = ['controller', 'reader', 'console']

/**
 * Content security policy of the page: everything comes from this listener, and only our own script and style files.
 */
const policy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** Returns the document. Its script is src/page/vms. Roles on tables stay when a narrow page shows rows as blocks. */
const hostPage = (role: Role): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>vmhostd</title>
<link rel="stylesheet" href="/ui/vms.css">
</head>
<body data-role="${role}" data-status="loading">
<header>
<h1 id="host">vmhostd</h1>
<p id="version"></p>
<p id="status" role="status">Loading</p>
<nav aria-label="Documents"><a href="/docs">API reference</a></nav>
</header>
<main>
<p id="announcement" class="unseen" role="status"></p>
<section id="refusal" role="alert" hidden>
<h2>The daemon does not show this</h2>
<p id="refusal-words"></p>
<button id="again" type="button">Try again</button>
</section>
${consolesOnly}
${hostPart}
</main>
<noscript>This page needs scripts.</noscript>
<script src="/ui/vms.js"></script>
</body>
</html>
`

const consolesOnly = `<section id="consoles-only" aria-labelledby="consoles-title" hidden>
<h2 id="consoles-title">Open a console</h2>
<p>Your certificate opens consoles of some VMs. It does not show the list of VMs.</p>
<form id="open">
<label for="vm">Name of the VM</label>
<input id="vm" required autocomplete="off" autocapitalize="off" spellcheck="false">
<button>Open</button>
</form>
</section>`

const heading = (sort: string, words: string): string =>
  `<th role="columnheader" scope="col" class="of-${sort}"><button type="button" data-sort="${sort}">${words}</button></th>`

const hostPart = `<div id="host-part">
<ul id="notices" aria-label="Needs attention" hidden></ul>
<section aria-labelledby="capacity-title">
<h2 id="capacity-title">Capacity</h2>
<p id="trouble" hidden></p>
<ul id="meters" hidden></ul>
</section>
<section id="vms-part" aria-labelledby="vms-title" hidden>
<h2 id="vms-title">VMs</h2>
<div id="choosing">
<form id="filter" role="search" aria-label="VMs">
<label for="text">Filter</label>
<input id="text" type="search" placeholder="Name, label, address or error" autocomplete="off" autocapitalize="off" spellcheck="false">
<label class="narrow" for="sort">Sort by</label>
<select class="narrow" id="sort"></select>
</form>
<nav aria-label="VMs by state"><ul id="choices"></ul></nav>
<p id="count"></p>
</div>
<p id="none" hidden>There is no VM on this host yet. <code>vmhostctl vm create --help</code> shows how to make one.</p>
<p id="no-match" hidden>No VM matches. <button id="clear" type="button">Show all VMs</button></p>
<table id="vms" role="table">
<caption class="unseen">VMs of this host</caption>
<thead role="rowgroup">
<tr role="row">
${heading('name', 'Name')}
${heading('state', 'State')}
${heading('memory', 'Memory')}
${heading('traffic', 'Last traffic')}
<th role="columnheader" scope="col" class="of-addresses">Addresses</th>
<th role="columnheader" scope="col" class="to-console">Console</th>
</tr>
</thead>
</table>
</section>
</div>`
