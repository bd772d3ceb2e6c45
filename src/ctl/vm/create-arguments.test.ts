import assert from 'node:assert/strict'
import { test } from 'node:test'
import { whyIgnored } from './create-arguments.ts'

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
