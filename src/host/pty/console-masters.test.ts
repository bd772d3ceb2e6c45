import assert from 'node:assert/strict'
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, openSync } from 'node:fs'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { until } from '../../../test/contract/until.ts'
import { MemoryDescriptorStore } from '../../../test/fakes/memory-descriptor-store.ts'
import type { VmId } from '../../core/vm/ids.ts'
import { silentLog } from '../../log/log.ts'
import { ConsoleMasters } from './console-masters.ts'
import { hasSession, openMaster, openSlave, slavePath } from './open-pty.ts'

const web = 'web-1' as VmId

function newLife(t: TestContext, store: MemoryDescriptorStore): ConsoleMasters {
  const consoles = new ConsoleMasters({ store, log: silentLog })
  t.after(() => {
    consoles.close()
    store.close()
  })
  return consoles
}

/** Stores a master as an earlier life of the daemon did, and tells the path of its slave. */
async function storeMaster(store: MemoryDescriptorStore, name: string): Promise<string> {
  const master = openMaster()
  await store.store(name, master)
  const path = slavePath(master)
  closeSync(master)
  return path
}

for (const inUse of ['first', 'second'] as const) {
  test(`of two stored consoles of a VM the one in use is adopted, be it the ${inUse}`, async (t) => {
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
      5000,
    )

    const consoles = newLife(t, store)
    assert.equal(consoles.adopt(), 1)
    assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath: paths[inUse] })
    await consoles.removeMaster(web)
    assert.deepEqual(await consoles.list(), [])
  })
}

test('a stored descriptor that is no console, or a broken one, does not keep the others from adoption', async (t) => {
  const store = new MemoryDescriptorStore()
  const file = openSync('/dev/null', 'r')
  await store.store('stored', file)
  await store.store('console-broken', file)
  closeSync(file)
  const path = await storeMaster(store, 'console-web-1')
  const consoles = newLife(t, store)
  assert.equal(consoles.adopt(), 1)
  assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath: path })
  assert.deepEqual(await consoles.inspect('broken' as VmId), { kind: 'unprotected' })
})

test('a stored console that could not be adopted makes way for a new one', async (t) => {
  const store = new MemoryDescriptorStore()
  await storeMaster(store, 'console-web-1')
  const consoles = newLife(t, store)
  assert.deepEqual(await consoles.inspect(web), { kind: 'unprotected' })
  const ptsPath = await consoles.ensureMaster(web)
  assert.deepEqual(await consoles.inspect(web), { kind: 'stored', ptsPath })
  assert.equal(store.takeInherited().length, 1)
})
