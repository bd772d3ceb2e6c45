import assert from 'node:assert/strict'
import { test } from 'node:test'
import { renderDebianChangelog } from './changelog.ts'

const MARKDOWN = `# Changelog

About versions.

## Unreleased

- A \`thing\` is new; see [its page](docs/page.md).
- This one has
  two lines.

## 0.2.0 (2026-12-01)

- The old.

## 0.1.0

The first version.
`

test('Debian reads each version with its date, and what is not released as a part of the package', () => {
  const text = renderDebianChangelog(MARKDOWN, { version: '0.3.0', date: new Date('2026-12-24T12:00:00Z') })
  const by = ' -- the vmhostd authors <vmhostd@example.org>  '
  assert.equal(
    text,
    `vmhostd (0.3.0) unstable; urgency=medium

  * A thing is new; see its page.
  * This one has two lines.

${by}Thu, 24 Dec 2026 12:00:00 +0000

vmhostd (0.2.0) unstable; urgency=medium

  * The old.

${by}Tue, 01 Dec 2026 00:00:00 +0000

vmhostd (0.1.0) unstable; urgency=medium

  * The first version.

${by}Thu, 24 Dec 2026 12:00:00 +0000
`,
  )
})

test('what came after a release is a part of its next build, even before the version is raised', () => {
  const text = renderDebianChangelog(MARKDOWN, { version: '0.2.0', date: new Date(0) })
  assert.deepEqual(text.match(/^vmhostd .*$/gm), [
    'vmhostd (0.2.0) unstable; urgency=medium',
    'vmhostd (0.1.0) unstable; urgency=medium',
  ])
})
