import assert from 'node:assert/strict'
import { spawnSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { gunzipSync } from 'node:zlib'
import { buildDeb } from '../../tools/deb.ts'
import { schemaFaults } from '../../tools/sbom-schema.ts'

const deb = await buildDeb()

const folder = mkdtempSync(join(tmpdir(), 'vmhostd-package-'))
after(() => rmSync(folder, { recursive: true }))

/** The list of all files with owners and times. */
const listing = spawnSync(
  'sh',
  [
    '-ec',
    'dpkg-deb --fsys-tarfile "$1" | tee tar | tar --list --verbose --full-time --numeric-owner',
    'sh',
    deb,
  ],
  { cwd: folder, encoding: 'utf8', env: { ...process.env, TZ: 'UTC' } },
)
  .stdout.trim()
  .split('\n')
spawnSync('tar', ['--extract', '--file=tar', './usr/share', './etc'], { cwd: folder })

const files = readdirSync(folder, { recursive: true, encoding: 'utf8' })
const read = (name: string): Buffer => readFileSync(join(folder, name))

test('the package has a man page of each program and each group of commands', () => {
  for (const name of [
    'man8/vmhostd.8',
    ...['', '-vm', '-snapshot', '-image'].map((group) => `man1/vmhostctl${group}.1`),
  ])
    assert.ok(files.includes(`usr/share/man/${name}.gz`), name)
})

test('the package has the documents of an operator, and each document that these link to', () => {
  const documents = files.filter((name) => name.endsWith('.md'))
  for (const name of ['operating', 'errors', 'vmhostctl', 'migrate'])
    assert.ok(documents.includes(`usr/share/doc/vmhostd/${name}.md`), name)
  for (const name of documents) {
    const links = read(name)
      .toString()
      .matchAll(/\]\((?!https?:)([^)#\s]+)/g)
    for (const [, link = ''] of links) {
      const target = new URL(link, `file:///${name}`).pathname
      assert.ok(files.includes(target.slice(1)), `${name} links to ${link}`)
    }
  }
})

test('needrestart restarts the daemon after an upgrade of a library, but never the unit of a guest', () => {
  const place = 'etc/needrestart/conf.d/vmhostd.conf'
  assert.ok(files.includes(place))
  // Reads the file as needrestart's own configuration does, and decides about each unit as needrestart does.
  const program = `
    our %nrconf = (override_rc => { qr(^dbus) => 0 });
    eval do { local(@ARGV, $/) = shift @ARGV; <> };
    die $@ if $@;
    for my $rc (@ARGV) {
      my ($re) = grep { $rc =~ /$_/ } sort keys %{$nrconf{override_rc}};
      print "$rc ", defined $re ? $nrconf{override_rc}->{$re} : 1, "\\n";
    }`
  const units = ['vmhost-web-1.service', 'vmhost-a.service', 'vmhostd.service', 'dbus.service', 'ssh.service']
  const { stdout, stderr } = spawnSync('perl', ['-we', program, join(folder, place), ...units], {
    encoding: 'utf8',
  })
  assert.equal(stderr, '')
  assert.deepEqual(stdout.trim().split('\n'), [
    'vmhost-web-1.service 0',
    'vmhost-a.service 0',
    'vmhostd.service 1',
    'dbus.service 0',
    'ssh.service 1',
  ])
})

test('dpkg keeps what an administrator changed in the files of the package below /etc', () => {
  const { stdout } = spawnSync('dpkg-deb', ['--info', deb, 'conffiles'], { encoding: 'utf8' })
  const below = listing.filter((line) => line.startsWith('-')).map((line) => /\.(\/etc\/.*)$/.exec(line)?.[1])
  assert.deepEqual(
    stdout.trim().split('\n').toSorted(),
    below.filter((name) => name !== undefined).toSorted(),
  )
})

test('its changelog has what is not released yet as a part of this version', () => {
  const text = gunzipSync(read('usr/share/doc/vmhostd/changelog.gz')).toString()
  assert.match(text, /^vmhostd \(\d+\.\d+\.\d+\) unstable; urgency=medium\n\n  \* /)
  assert.doesNotMatch(text, /Unreleased/)
})

test('all files of the package have the time of its sources, and root owns them', () => {
  const times = new Set(listing.map((line) => /\d{4}-\d\d-\d\d \d\d:\d\d:\d\d/.exec(line)?.[0]))
  assert.equal(times.size, 1, [...times].join(', '))
  for (const line of listing) assert.match(line, / 0\/0 /)
})

test('the package lists what is embedded, as the schema of CycloneDX wants it', () => {
  const text = read('usr/share/doc/vmhostd/vmhostd.cdx.json').toString()
  assert.deepEqual(schemaFaults(text), [])
  const { components } = JSON.parse(text) as { components: readonly { readonly name: string }[] }
  const names = components.map(({ name }) => name)
  for (const name of [
    'fastify',
    'koffi',
    '@xterm/xterm',
    '@scalar/api-reference',
    `node-linux-${process.arch}`,
  ])
    assert.ok(names.includes(name), name)
  for (const name of ['esbuild', 'typescript', 'playwright-core']) assert.ok(!names.includes(name), name)
})
