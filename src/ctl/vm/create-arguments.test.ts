import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { pathToFileURL } from 'node:url'
import { parseImage, whyIgnored } from './create-arguments.ts'
import type { TestContext } from 'node:test'

const KNOWN = [
  '#cloud-config\npackages: []\n',
  '\n#cloud-config\n',
  '#!/bin/sh\n',
  '## template: jinja\n#cloud-config\n',
  'MIME-Version: 1.0\n',
  'content-type: multipart/mixed; boundary="x"\n',
]

for (const text of KNOWN) {
  test(`cloud-init acts on user data that begins with ${JSON.stringify(text)}`, () => {
    assert.equal(whyIgnored(text), undefined)
  })
}

for (const text of ['', 'ID=debian\n', '# a comment\n#cloud-config\n']) {
  test(`cloud-init ignores user data that begins with ${JSON.stringify(text)}`, () => {
    assert.match(whyIgnored(text) ?? '', /ignore it silently$/)
  })
}

function folder(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'images-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

test('an image that is not a regular file is refused, and nothing reads it', async (t) => {
  const directory = folder(t)
  mkdirSync(join(directory, 'sub dir'))
  execFileSync('mkfifo', [join(directory, 'fifo')])
  for (const [name, message] of [
    ['fifo', '--rootfs: the image is not a regular file'],
    ['sub dir', '--rootfs: the image is not a regular file, but a directory'],
  ] as const)
    await assert.rejects(parseImage(join(directory, name), '--rootfs'), {
      code: 'usage',
      status: 2,
      message,
      advice: [],
    })
})

test('a missing image comes with advice for one on another host, and one that cannot be read comes without', async (t) => {
  const name = join(folder(t), 'x'.repeat(300))
  const message = '--rootfs: the image cannot be read to compute its digest'
  await assert.rejects(parseImage(name, '--rootfs'), { message, advice: [] })
  await assert.rejects(parseImage('/nowhere/root.img', '--rootfs'), {
    message,
    advice: ['if it is on another host, give its digest: file:///path#sha256=DIGEST'],
  })
})

test('a # in the path of an image comes with advice how to write it', async (t) => {
  const path = join(folder(t), 'hash#1.img')
  writeFileSync(path, 'an image')
  const sha256 = createHash('sha256').update('an image').digest('hex')
  const { href } = pathToFileURL(path)
  for (const text of [path, pathToFileURL(path.replace('#', '')).href.replace('hash1', 'hash#1')])
    await assert.rejects(parseImage(text, '--rootfs'), {
      message: '--rootfs: what follows # is not sha256=DIGEST',
      advice: [
        'write https://…#sha256=DIGEST, with the digest that sha256sum prints, or the path of a file on the host',
        'write a # in a path as %23: file:///srv/images/root%231.img',
      ],
    })
  assert.deepEqual(await parseImage(href, '--rootfs'), { url: href, sha256 })
  await assert.rejects(parseImage('https://i.example/k#v2', '--rootfs'), /what follows # is not/)
})
