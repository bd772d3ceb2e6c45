import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  closeSync,
  mkdtempSync,
  openSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { MemoryDescriptorStore } from '../../../test/fakes/memory-descriptor-store.ts'
import { limits } from '../../config/limits.ts'
import { HostFault } from '../../core/errors.ts'
import type { VmId } from '../../core/ids.ts'
import { silentLog } from '../../log/log.ts'
import type { Log } from '../../log/log.ts'
import { ConsoleMasters } from './console-masters.ts'
import { hasSession, openMaster, openSlave, slavePath } from './open-pty.ts'

const web = 'web-1' as VmId

function runDirectoryOf(t: TestContext): string {
  const directory = mkdtempSync(join(tmpdir(), 'consoles-'))
  t.after(() => rmSync(directory, { recursive: true }))
  return directory
}

function newLife(
  t: TestContext,
  store: MemoryDescriptorStore,
  { runDirectory = runDirectoryOf(t), log = silentLog } = {},
): ConsoleMasters {
  const consoles = new ConsoleMasters({ store, runDirectory, log })
  t.after(() => {
    consoles.close()
    store.close()
  })
  return consoles
}

/** Records the lines that are warnings or worse. */
function recordedLog(): { log: Log; lines: string[] } {
  const lines: string[] = []
  const line = (_fields: object, message: string): void => void lines.push(message)
  const log: Log = { ...silentLog, warn: line, error: line, child: () => log }
  return { log, lines }
}

/** Stores a master as an earlier daemon process did, and returns the path of its slave. */
async function storeMaster(store: MemoryDescriptorStore, name: string): Promise<string> {
  const master = openMaster()
  await store.store(name, master)
  const path = slavePath(master)
  closeSync(master)
  return path
}

for (const inUse of ['first', 'second'] as const) {
  test(`of two stored consoles of a VM the one in use is adopted, here the ${inUse}`, async (t) => {
    const store = new MemoryDescriptorStore()
    const paths = {
      first: await storeMaster(store, 'console-web-1'),
      second: await storeMaster(store, 'console-web-1'),
    }
    const slave = openSlave(paths[inUse])
    const vm = spawn('setsid', ['--ctty', '--wait', 'sh', '-c', 'read line'], {
      stdio: [slave, slave, slave],
    })
    t.after(async () => {
      vm.kill()
      closeSync(slave)
      if (vm.exitCode === null && vm.signalCode === null) await once(vm, 'exit')
    })
    const entry = store.takeInherited()[inUse === 'first' ? 0 : 1]
    await until(
      () => entry !== undefined && hasSession(entry.fd),
      (up) => up,
    )

    const consoles = newLife(t, store)
    assert.equal(await consoles.adopt(), 1)
    assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath: paths[inUse] })
    await consoles.remove(web)
    assert.deepEqual(await consoles.list(), [])
  })
}

test('a stored descriptor that is broken or not a console does not keep the others from adoption', async (t) => {
  const store = new MemoryDescriptorStore()
  const file = openSync('/dev/null', 'r')
  await store.store('stored', file)
  await store.store('console-broken', file)
  closeSync(file)
  const path = await storeMaster(store, 'console-web-1')
  const consoles = newLife(t, store)
  assert.equal(await consoles.adopt(), 1)
  assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath: path })
  assert.deepEqual(await consoles.inspect('broken' as VmId), { kind: 'unopened' })
})

test('an adoption of many lets other work through, and a console that is asked for comes first', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  const ids = Array.from({ length: limits.consolesATurn + 2 }, (_, index) => `web-${index + 1}` as VmId)
  for (const id of ids) await first.ensureMaster(id)
  const [asleep, last] = ids.slice(-2) as [VmId, VmId]
  await first.removeMaster(asleep)
  first.close()
  const second = newLife(t, store, { runDirectory })
  const begun: VmId[] = []
  second.onSession((id) => begun.push(id))
  const adopting = second.adopt()
  assert.equal(begun.length, limits.consolesATurn)
  assert.ok(!begun.includes(last) && !begun.includes(asleep))
  assert.equal(second.session(last)?.isAttached, true)
  assert.equal(second.session(asleep)?.isAttached, false)
  assert.equal(await adopting, ids.length - 1)
  assert.deepEqual(begun.toSorted(), ids.toSorted())
})

test('input that a terminal has not taken goes on in the next life of the daemon', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  // As the VM does. When the last slave closes, the kernel drops what it has.
  const slave = openSlave(await first.ensureMaster(web))
  t.after(() => closeSync(slave))
  const typed = Array.from({ length: 4000 }, (_, line) => `line ${line}\n`).join('')
  first.session(web)?.write(Buffer.from(typed))
  first.close()
  const second = newLife(t, store, { runDirectory })
  await second.adopt()
  await second.removeMaster(web)
  assert.equal(readFileSync(join(runDirectory, 'console/web-1.input'), 'utf8'), typed)
})

test('what was not adopted yet is closed with the rest, and the next daemon finds it', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  const ids = Array.from({ length: limits.consolesATurn + 1 }, (_, index) => `web-${index + 1}` as VmId)
  for (const id of ids) await first.ensureMaster(id)
  first.close()
  const before = readdirSync('/proc/self/fd').length
  const second = newLife(t, store, { runDirectory })
  const adopting = second.adopt()
  second.close()
  await adopting
  await until(
    () => readdirSync('/proc/self/fd').length,
    (count) => count === before,
  )
  assert.equal(await newLife(t, store, { runDirectory }).adopt(), ids.length)
})

test('a stored console that could not be adopted is replaced by a new one', async (t) => {
  const store = new MemoryDescriptorStore()
  await storeMaster(store, 'console-web-1')
  const consoles = newLife(t, store)
  assert.deepEqual(await consoles.inspect(web), { kind: 'unopened' })
  const ptsPath = await consoles.ensureMaster(web)
  assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath })
  assert.equal(store.takeInherited().length, 1)
})

test('a stored console that could not be adopted protects no VM, even if its history exists', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  await first.ensureMaster(web)
  first.close()
  await store.remove('console-web-1')
  const file = openSync('/dev/null', 'r')
  await store.store('console-web-1', file)
  closeSync(file)
  const second = newLife(t, store, { runDirectory })
  assert.equal(await second.adopt(), 0)
  assert.deepEqual(await second.inspect(web), { kind: 'unopened' })
  assert.deepEqual(await second.stored(), [])
})

test('a console of an earlier version, which had no history, gets a session', async (t) => {
  const store = new MemoryDescriptorStore()
  await storeMaster(store, 'console-web-1')
  const { log, lines } = recordedLog()
  const consoles = newLife(t, store, { log })
  assert.equal(await consoles.adopt(), 1)
  assert.equal(consoles.session(web)?.output.end, 0)
  assert.deepEqual(lines, [])
})

test('a history that cannot be used is reported, and replaced by a new session', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  await first.ensureMaster(web)
  const earlier = first.session(web)?.id
  first.close()
  writeFileSync(`${runDirectory}/console/web-1`, 'garbage')
  const { log, lines } = recordedLog()
  const second = newLife(t, store, { runDirectory, log })
  assert.equal(await second.adopt(), 1)
  assert.deepEqual(lines, ['console history not usable; new session started'])
  const session = second.session(web)?.id
  assert.notEqual(session, earlier)
  second.close()
  const third = newLife(t, store, { runDirectory })
  await third.adopt()
  assert.equal(third.session(web)?.id, session)
})

test('if no history can be kept, a running VM still has its console', async (t) => {
  const store = new MemoryDescriptorStore()
  const ptsPath = await storeMaster(store, 'console-web-1')
  const runDirectory = runDirectoryOf(t)
  writeFileSync(`${runDirectory}/console`, 'a file where the directory should be')
  const { log, lines } = recordedLog()
  const consoles = newLife(t, store, { runDirectory, log })
  assert.equal(await consoles.adopt(), 1)
  assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath })
  assert.ok(lines.includes('console history kept in memory only'))
  assert.equal(consoles.session(web)?.output.end, 0)
})

test('if no history can be kept, no console is made', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  writeFileSync(`${runDirectory}/console`, 'a file where the directory should be')
  const consoles = newLife(t, store, { runDirectory })
  const files = readdirSync('/proc/self/fd').length
  await assert.rejects(consoles.ensureMaster(web), (error) => {
    assert.ok(error instanceof HostFault && error.code === 'console_unprotected')
    return true
  })
  assert.deepEqual(await consoles.list(), [])
  assert.equal(readdirSync('/proc/self/fd').length, files)
})

test('a history lives until its console is removed, and adoption removes other files', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const histories = (): string[] => readdirSync(`${runDirectory}/console`)
  const first = newLife(t, store, { runDirectory })
  for (const id of ['web-1', 'web-2', 'web-3', 'web-4'] as VmId[]) await first.ensureMaster(id)
  assert.equal(statSync(`${runDirectory}/console`).mode & 0o777, 0o700)
  for (const id of ['web-2', 'web-3', 'web-4'] as VmId[]) {
    await first.removeMaster(id)
    first.session(id)?.write(Buffer.from('typed'))
  }
  await first.endSession('web-3' as VmId)
  await first.remove('web-4' as VmId)
  assert.deepEqual(histories(), ['web-1', 'web-2', 'web-2.input', 'web-3'])
  first.close()
  writeFileSync(`${runDirectory}/console/gone-1`, '')
  writeFileSync(`${runDirectory}/console/web-9.new`, '')
  const second = newLife(t, store, { runDirectory })
  assert.equal(await second.adopt(), 1)
  assert.deepEqual(histories(), ['web-1', 'web-2', 'web-2.input', 'web-3'])
  assert.deepEqual(await second.inspect('web-2' as VmId), { kind: 'detached' })
  assert.deepEqual(await second.inspect('web-3' as VmId), { kind: 'ended' })
})

test('input that a daemon left at the end of a session goes to no later one', async (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = runDirectoryOf(t)
  const first = newLife(t, store, { runDirectory })
  await first.ensureMaster(web)
  await first.endSession(web)
  first.close()
  // The daemon could have been killed before it removed the file.
  writeFileSync(`${runDirectory}/console/web-1.input`, 'for the guest that ended')
  const second = newLife(t, store, { runDirectory })
  await second.adopt()
  await second.ensureMaster(web)
  // Input that the terminal got, and that no program read, comes back from it.
  await second.removeMaster(web)
  assert.equal(second.session(web)?.inputWaiting, 0)
  await second.endSession(web)
  second.close()
  writeFileSync(`${runDirectory}/console/web-1`, 'garbage')
  writeFileSync(`${runDirectory}/console/web-1.input`, 'typed')
  await newLife(t, store, { runDirectory }).adopt()
  assert.deepEqual(readdirSync(`${runDirectory}/console`), [])
})

test('a console without a terminal holds no file open', async (t) => {
  const consoles = newLife(t, new MemoryDescriptorStore())
  const openFiles = (): number => readdirSync('/proc/self/fd').length
  const before = openFiles()
  await consoles.ensureMaster(web)
  await consoles.removeMaster(web)
  assert.equal(await until(openFiles, (count) => count === before), before)
})

test('the history of a console that is removed or begun again is unmapped', async (t) => {
  const runDirectory = runDirectoryOf(t)
  const consoles = newLife(t, new MemoryDescriptorStore(), { runDirectory })
  const mapped = (): number => readFileSync('/proc/self/maps', 'utf8').split(runDirectory).length - 1
  await consoles.ensureMaster(web)
  const one = mapped()
  assert.ok(one > 0)
  await consoles.endSession(web)
  await consoles.ensureMaster(web)
  assert.equal(mapped(), one)
  await consoles.remove(web)
  assert.equal(mapped(), 0)
})

test('the last session stays until the next one can be used', async (t) => {
  const store = new MemoryDescriptorStore()
  const consoles = newLife(t, store)
  await consoles.ensureMaster(web)
  await consoles.endSession(web)
  const last = consoles.lastSession(web)
  store.refusing = true
  await assert.rejects(consoles.ensureMaster(web), HostFault)
  assert.equal(consoles.lastSession(web), last)
  assert.deepEqual(await consoles.inspect(web), { kind: 'ended' })
})

class StickyStore extends MemoryDescriptorStore {
  sticky = true

  override remove(name: string): Promise<void> {
    if (!this.sticky) return super.remove(name)
    return Promise.reject(new HostFault('console_unprotected', `removing ${name} from systemd`))
  }
}

test('a console that systemd does not release continues with its session', async (t) => {
  const store = new StickyStore()
  const consoles = newLife(t, store)
  await consoles.ensureMaster(web)
  const before = consoles.session(web)
  for (const leave of ['removeMaster', 'endSession', 'remove'] as const) {
    await assert.rejects(consoles[leave](web), HostFault)
    assert.equal(consoles.session(web), before)
    assert.equal(before?.isAttached, true)
  }
  store.sticky = false
  await consoles.remove(web)
  assert.equal(consoles.session(web), undefined)
})
