import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ensurePackages, MANDOC, wanting } from '../../tools/apt.ts'
import { manPages } from '../../tools/man/man-pages.ts'
import { run } from '../../tools/process.ts'

const skip = wanting(MANDOC)
const pages = manPages({ version: '1.2.3', date: new Date('2026-11-23') })

test('the lint of mandoc finds nothing in the man pages, not even in their style', { skip }, async () => {
  await ensurePackages([MANDOC])
  for (const [name, text] of pages) {
    const { code, stdout, stderr } = await run(['mandoc', '-T', 'lint', '-W', 'style'], { input: text })
    assert.deepEqual([name, stdout, stderr, code], [name, '', '', 0])
  }
})

test('a page shows its commands as they are typed', { skip }, async () => {
  await ensurePackages([MANDOC])
  const { stdout } = await run(['mandoc', '-T', 'ascii', '-O', 'width=200'], {
    input: pages.get('vmhostctl-vm.1') ?? '',
  })
  const plain = stdout.replaceAll(/.[\b]/g, '')
  assert.match(plain, /^ +vmhostctl vm ls --json \| jq -r '\.items\[\]\.id'$/m)
  assert.match(plain, /^ +vmhostctl vm wait NAME\.\.\. \[OPTIONS\]$/m)
})
