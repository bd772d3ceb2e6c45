/**
 * Content security policy of the page. Everything comes from this listener, the WebSocket too, and only our own script
 * files run. Inline styles are allowed: the terminal writes them as it draws, for its cells and for the colours of a
 * guest.
 */
export const consolePolicy = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self' 'unsafe-inline'",
  "connect-src 'self'",
  'img-src data:',
  "base-uri 'none'",
  "form-action 'self'",
  "frame-ancestors 'none'",
].join('; ')

/** The document, the same for every VM. Its script is src/page/console. */
export const consolePage = `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>Console</title>
<link rel="stylesheet" href="/ui/console.css">
</head>
<body>
<header>
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
</header>
<p id="leave" class="unseen">Shift+F6 leaves the terminal.</p>
<main id="terminal" aria-label="Terminal" aria-describedby="leave"></main>
<noscript>The console needs scripts.</noscript>
<script src="/ui/console.js"></script>
</body>
</html>
`
