type HtmlPage = {
  /** As text. */
  readonly title: string
  readonly style: string
  /** As markup. */
  readonly main: string
}

/** Renders a page without scripts; `scriptlessHeaders` are its headers. */
export const htmlPage = ({ title, style, main }: HtmlPage): string => `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="icon" href="data:,">
<title>${escapeHtml(title)}</title>
<style>${style}</style>
</head>
<body>
<main>
${main}
</main>
</body>
</html>
`

/** Returns text as markup, also for the value of an attribute in double quotes. */
export const escapeHtml = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;').replaceAll('"', '&quot;')
