import assert from 'node:assert/strict'
import { readFileSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { limits } from '../src/config/limits.ts'
import { MIB } from '../src/lib/byte-units.ts'
import { readSources, SOURCE_FOLDERS } from '../tools/import-graph.ts'
import { checkout as root } from '../tools/paths.ts'

const COLUMNS_MAX = 120

/** Made from a template and figures on record, so its lines have any length. */
const MADE = 'docs/figures.md'

test('prose in documents is wrapped', () => {
  const below = ['docs', ...SOURCE_FOLDERS].flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' }).map((name) => join(folder, name)),
  )
  const documents = [...readdirSync(root), ...below].filter((name) => name.endsWith('.md'))
  assert.ok(
    documents.includes('README.md') && documents.includes('src/core/README.md'),
    'the documents are found',
  )
  for (const path of documents.filter((name) => name !== MADE)) {
    let isCode = false
    for (const [index, line] of readFileSync(join(root, path), 'utf8').split('\n').entries()) {
      if (/^\s*```/.test(line)) isCode = !isCode
      // Rows of tables cannot be wrapped, nor can a line of one word, such as a link.
      if (isCode || /^\s*\|/.test(line) || !line.trim().includes(' ')) continue
      assert.ok(line.length <= COLUMNS_MAX, `${path}:${index + 1} has ${line.length} columns: wrap it`)
    }
  }
})

test('comments are wrapped', () => {
  for (const { path, lines } of SOURCE_FOLDERS.flatMap(readSources)) {
    for (const [index, line] of lines.entries()) {
      if (!/^\s*(\/\/|\/\*|\* )/.test(line)) continue
      assert.ok(line.length <= COLUMNS_MAX, `${path}:${index + 1} has ${line.length} columns: wrap it`)
    }
  }
})

test('the page of limits has the limits that hold', () => {
  const [GIB, TIB] = [1024, 1024 ** 2]
  const page = readFileSync(join(root, 'docs/limits.md'), 'utf8').replaceAll(/\s+/g, ' ')
  const count = (value: number): string => value.toLocaleString('en-US')
  const said = [
    `1 to ${limits.cpuMillicoresMax / 1000}, one for each started`,
    `${limits.memoryMibMin} MiB to ${limits.memoryMibMax / TIB} TiB`,
    `one, ${limits.diskMibMin} MiB to ${limits.diskMibMax / TIB} TiB`,
    `${limits.firewallRulesMax} rules for what comes in, and ${limits.firewallRulesMax} for what goes out`,
    `${limits.userDataBytesMax / 1024} KiB, and ${limits.sshKeysMax} SSH keys`,
    `labels | ${limits.labelsMax} |`,
    `${limits.consoleViewersMax} viewers, and ${limits.consoleViewersMax} shells`,
    `${limits.imageBytesMax / MIB / TIB} TiB unpacked; kernel and initrd ${limits.bootImageBytesMax / MIB / GIB} GiB each`,
    `running VMs | ${count(limits.consolePlacesMax)}, because`,
    `${limits.savesMax} VMs that fall asleep, ${limits.longStepsMax} saves at a shutdown of the host, ${limits.restoresMax} restores after a boot or a drain, ${limits.imageFetchesMax} fetches of images`,
    `${limits.packsMax} snapshots that are packed, ${limits.departuresAtOnceMax} disks that are copied`,
    `${count(limits.snapshotsMax)}, each of at most ${count(limits.partsMax)} parts`,
    `the last ${count(limits.eventsMax)} of the last ${limits.eventsAgeMsMax / 86_400_000} days; the last ${count(limits.eventsKeptMin)} stay`,
    `${count(limits.connectionsMax)} connections, ${limits.clientsMax} names`,
    `${limits.heldFramesMax} packets and ${limits.heldBytesMax / MIB} MiB are held, each for at most a minute`,
  ]
  assert.equal(limits.heldFrameAgeMs, 60_000)
  for (const text of said) assert.ok(page.includes(text), `docs/limits.md does not say "${text}"`)
})

test('links between documents lead to headings that exist', () => {
  const slug = (heading: string): string =>
    heading
      .toLowerCase()
      .replaceAll(/[^\p{L}\d\- ]/gu, '')
      .replaceAll(' ', '-')
  const documents = [
    'README.md',
    'CONTRIBUTING.md',
    'SECURITY.md',
    ...readdirSync(join(root, 'docs')).map((name) => `docs/${name}`),
  ]
  let links = 0
  for (const path of documents.filter((name) => name.endsWith('.md'))) {
    for (const [, target = '', anchor = ''] of readFileSync(join(root, path), 'utf8').matchAll(
      /\]\(([\w./-]*\.md)?#([^)]+)\)/g,
    )) {
      const file = target === '' ? path : join(path, '..', target)
      const headings = [...readFileSync(join(root, file), 'utf8').matchAll(/^#+ (.*)$/gm)].map(
        ([, text = '']) => slug(text),
      )
      assert.ok(
        headings.includes(anchor),
        `${path} links to #${anchor} of ${file}, which has no such heading`,
      )
      links += 1
    }
  }
  assert.ok(links > 20, `only ${links} links were found`)
})
