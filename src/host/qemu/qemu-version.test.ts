import assert from 'node:assert/strict'
import { test } from 'node:test'
import { chmod, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { greetedVersion, InstalledQemu, qemuVersion } from './qemu-version.ts'

for (const [what, program] of [
  ['is not there', '/usr/bin/no-such-qemu'],
  ['fails', '/bin/false'],
  ['is something else', '/bin/true'],
]) {
  test(`a monitor program that ${what} is monitor_missing`, async () => {
    await assert.rejects(qemuVersion(program ?? ''), { code: 'monitor_missing' })
  })
}

test('a greeting has the version in the form of the program itself', () => {
  const greeting = { version: { qemu: { micro: 13, minor: 0, major: 10 }, package: 'Debian 1:10.0.13' } }
  assert.equal(greetedVersion(greeting), '10.0.13')
  for (const other of [undefined, {}, { version: { qemu: { major: 10 } } }]) {
    assert.equal(greetedVersion(other), undefined)
  }
})

test('the installed program is run again only when its file has changed', async (t) => {
  const directory = await mkdtemp(join(tmpdir(), 'vmh-'))
  t.after(() => rm(directory, { recursive: true }))
  const program = join(directory, 'qemu')
  const install = async (version: string): Promise<void> => {
    const script = `#!/bin/sh\necho run >>${directory}/runs\necho "QEMU emulator version ${version} (Debian)"\n`
    await writeFile(`${program}.new`, script)
    await chmod(`${program}.new`, 0o755)
    await rename(`${program}.new`, program)
  }
  const installed = new InstalledQemu(program)
  await assert.rejects(installed.version(), { code: 'monitor_missing' })
  await install('10.0.2')
  assert.deepEqual(await Promise.all([installed.version(), installed.version()]), ['10.0.2', '10.0.2'])
  assert.equal(await installed.version(), '10.0.2')
  assert.equal(await readFile(`${directory}/runs`, 'utf8'), 'run\n')
  await install('10.0.13')
  assert.equal(await installed.version(), '10.0.13')
})
