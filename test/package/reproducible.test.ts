import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { copyFileSync, existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { after, test } from 'node:test'
import { checkout, distPath } from '../../tools/paths.ts'
import { runChecked } from '../../tools/process.ts'
import { buildRelease } from '../../tools/release.ts'

/** Below the checkout, so that git finds the same commit; packages of npm are links, because they take 0.8 GB. */
const folder = mkdtempSync(path.join(distPath(), 'again-'))
after(() => rmSync(folder, { recursive: true }))

const sumOf = (file: string): string => createHash('sha256').update(readFileSync(file)).digest('hex')

async function copySources(target: string): Promise<void> {
  const argv = ['git', '-C', checkout, 'ls-files', '-z', '--cached', '--others', '--exclude-standard']
  for (const name of (await runChecked(argv)).split('\0').filter(Boolean)) {
    // Git still lists a file that was deleted and is not committed.
    if (!existsSync(path.join(checkout, name))) continue
    mkdirSync(path.dirname(path.join(target, name)), { recursive: true })
    copyFileSync(path.join(checkout, name), path.join(target, name))
  }
  await runChecked(['cp', '--archive', '--link', path.join(checkout, 'node_modules'), target])
}

test('a release that is built in another folder, time zone, locale and umask, with an empty cache, has the same bytes', async () => {
  const first = await buildRelease()
  const again = path.join(folder, 'a folder', 'of another depth')
  mkdirSync(again, { recursive: true })
  await copySources(again)
  const env = {
    ...process.env,
    TZ: 'Pacific/Kiritimati',
    LC_ALL: 'C',
    HOME: '/nonexistent',
    VMHOSTD_CACHE: path.join(folder, 'cache'),
  }
  await runChecked(['sh', '-ec', 'umask 077; exec ./dev release'], { cwd: again, env })

  const sums = (release: string) =>
    readdirSync(release).map((name) => [name, sumOf(path.join(release, name))] as const)
  const made = sums(path.join(again, 'dist', 'release'))
  assert.deepEqual(made, sums(first))
  const kinds = made.map(([name]) => name.replace(/[_-]\d.*?(?=\.[a-z]|$)/, ''))
  assert.deepEqual(kinds.toSorted(), [
    'SHA256SUMS',
    'vmhostd-client-go.tar.gz',
    'vmhostd-client-python.tar.gz',
    'vmhostd-client-typescript.tar.gz',
    'vmhostd-openapi-controller.json',
    'vmhostd-openapi-coordination.json',
    'vmhostd-openapi-metrics.json',
    'vmhostd-surface.json',
    'vmhostd.cdx.json',
    'vmhostd.deb',
  ])
})
