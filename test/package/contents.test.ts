import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { buildDeb } from '../../tools/deb.ts'

const deb = await buildDeb()

/** Runs a pipe of commands on the package; returns what comes out. */
const fromPackage = (pipe: string): Buffer =>
  spawnSync('sh', ['-ec', `dpkg-deb --fsys-tarfile "$1" | ${pipe}`, 'sh', deb], { maxBuffer: 2 ** 28 }).stdout

const names = fromPackage('tar --list').toString().split('\n')
const fileOf = (name: string): Buffer => fromPackage(`tar --extract --to-stdout ./${name}`)

test('the package has a man page of each program and each group of commands', () => {
  for (const name of [
    'man8/vmhostd.8',
    ...['', '-vm', '-snapshot', '-image'].map((group) => `man1/vmhostctl${group}.1`),
  ])
    assert.ok(names.includes(`./usr/share/man/${name}.gz`), name)
})

test('the package has the documents of an operator, and each document that these link to', () => {
  const documents = names.filter((name) => name.endsWith('.md'))
  for (const name of ['operating', 'errors', 'vmhostctl', 'migrate'])
    assert.ok(documents.includes(`./usr/share/doc/vmhostd/${name}.md`), name)
  for (const name of documents) {
    const links = fileOf(name)
      .toString()
      .matchAll(/\]\((?!https?:)([^)#\s]+)/g)
    for (const [, link = ''] of links) {
      const target = new URL(link, `file:///${name}`).pathname
      assert.ok(names.includes(`.${target}`), `${name} links to ${link}`)
    }
  }
})

test('its changelog has what is not released yet as a part of this version', () => {
  const text = gunzipSync(fileOf('usr/share/doc/vmhostd/changelog.gz')).toString()
  assert.match(text, /^vmhostd \(\d+\.\d+\.\d+\) unstable; urgency=medium\n\n  \* /)
  assert.doesNotMatch(text, /Unreleased/)
})

test('all files of the package have the time of its sources, and root owns them', () => {
  const lines = fromPackage('TZ=UTC tar --list --verbose --full-time --numeric-owner')
    .toString()
    .trim()
    .split('\n')
  const times = new Set(lines.map((line) => /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.exec(line)?.[0]))
  assert.equal(times.size, 1, [...times].join(', '))
  for (const line of lines) assert.match(line, / 0\/0 /)
})
