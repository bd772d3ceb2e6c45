import { asPages, pageHeaders, problems } from '../../listener/answers.ts'
import { pageAnswer } from '../../listener/reference.ts'
import { linkTo, plainPage, plainPageHeaders } from '../../listener/problem-page.ts'
import { isOfForeignSite } from '../foreign-pages.ts'
import { servePageAssets } from './page-assets.ts'
import { params, tags } from './vm-parts.ts'
import type { App } from '../../listener/app.ts'
import type { ApiDependencies } from '../dependencies.ts'

/** Serves a terminal in the browser: the page and its files. The VM is looked up only when the page connects. */
export function consolePageRoutes(app: App, dependencies: ApiDependencies): void {
  app.get(
    '/ui/console/:id',
    {
      schema: {
        operationId: 'getConsolePage',
        tags,
        summary: 'The console as a page',
        description:
          'A terminal on the serial console; with `?mode=ssh&user=NAME` on a shell over SSH. It reconnects by ' +
          'itself while the daemon restarts. It looks for the VM only when it connects, and says so if there is none. ' +
          'A link of another site gets a page that asks before it opens a shell, and accepts no host key.',
        produces: ['text/html'],
        params,
        response: {
          200: pageAnswer,
          ...asPages(problems()),
        },
      },
    },
    async (request, reply) => {
      reply.type('text/html; charset=utf-8')
      // The browser sees these parameters as they were sent, so no parser of the listener may be between.
      const { searchParams } = new URL(request.raw.url ?? '/', 'https://host')
      if (isOfForeignSite(request) && searchParams.getAll('mode').includes('ssh')) {
        reply.headers(plainPageHeaders)
        return shellQuestion(request.params.id, searchParams)
      }
      reply.headers(pageHeaders(consolePolicy))
      return consolePage
    },
  )
  servePageAssets(app, dependencies, ['console.js', 'console.css'])
}

/**
 * Asks a person whom a page of another site led here. The console page connects by itself: that would wake a VM for a
 * shell, and accept a host key for everyone. A click here is of this site. No text of the address is shown.
 */
function shellQuestion(id: string, asked: URLSearchParams): string {
  const kept = new URLSearchParams({ mode: 'ssh' })
  const user = asked.get('user')
  if (user !== null) kept.set('user', user)
  const key = asked.has('accept_host_key')
    ? ' The address also asks to accept a host key. That was left out: add accept_host_key to the address yourself if you know the key.'
    : ''
  return plainPage(`Open a shell in ${id}?`, [
    `A page of another site led here. A shell wakes a VM that sleeps.${key}`,
    linkTo(`/ui/console/${id}?${kept.toString()}`, 'Open the shell'),
    linkTo(`/ui/console/${id}`, 'Serial console'),
    linkTo('/ui/', 'All VMs'),
  ])
}

/**
 * Content security policy of the page. Everything comes from this listener, the WebSocket too, and only our own script
 * files run. Inline styles are allowed: the terminal writes them as it draws, for its cells and for the colours of a
 * guest.
 */
const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/**
 * The document, the same for every VM. Its script is src/page/console.
 * The keyboard of a phone must not cover the last lines.
 */
const consolePage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, interactive-widget=resizes-content">
<link rel="icon" href="data:,">
<title>Console</title>
<link rel="stylesheet" href="/ui/console.css">
</head>
<body>
<header>
<nav aria-label="Pages"><a href="/ui/">All VMs</a></nav>
<h1 id="vm">Console</h1>
<p id="status" role="status">Loading</p>
<button id="again" type="button" hidden>Connect again</button>
<form method="get">
<button id="tty" name="mode" value="tty">Serial console</button>
<button id="ssh" name="mode" value="ssh">SSH</button>
<label for="user">as</label>
<input id="user" name="user" value="root" autocomplete="off" autocapitalize="off" spellcheck="false">
</form>
<label><input id="spoken" type="checkbox"> Screen reader</label>
<span id="size" aria-label="Columns and rows"></span>
<span id="leave">Shift+F6 leaves the terminal</span>
</header>
<main>
<section id="notice" aria-labelledby="notice-title" hidden>
<h2 id="notice-title"></h2>
<p id="notice-words"></p>
<p><a href="/ui/">All VMs</a></p>
</section>
<div id="terminal" role="region" aria-label="Terminal" aria-describedby="leave"></div>
<div id="keys" role="group" aria-label="Keys">
<button type="button" data-key="escape">Esc</button>
<button type="button" data-key="tab">Tab</button>
<button type="button" id="control" aria-pressed="false">Ctrl</button>
<button type="button" data-key="left" aria-label="Left">←</button>
<button type="button" data-key="up" aria-label="Up">↑</button>
<button type="button" data-key="down" aria-label="Down">↓</button>
<button type="button" data-key="right" aria-label="Right">→</button>
</div>
</main>
<noscript>The console needs scripts.</noscript>
<script src="/ui/console.js"></script>
</body>
</html>
`
