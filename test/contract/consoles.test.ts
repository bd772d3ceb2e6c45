import assert from 'node:assert/strict'
import { closeSync, writeSync } from 'node:fs'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { consoleName } from '../../src/core/unit/unit-name.ts'
import type { VmId } from '../../src/core/vm/ids.ts'
import { ConsoleMasters } from '../../src/host/pty/console-masters.ts'
import { openSlave } from '../../src/host/pty/open-pty.ts'
import { silentLog } from '../../src/log/log.ts'
import { FakeConsoles, fakeDescriptorStore } from '../fakes/fake-consoles.ts'
import { MemoryDescriptorStore } from '../fakes/memory-descriptor-store.ts'
import { consolesContract } from './consoles.contract.ts'

const web = 'web-1' as VmId

consolesContract('fake consoles', () => {
  const store = fakeDescriptorStore()
  let consoles = new FakeConsoles(store)
  return {
    consoles: () => consoles,
    history: (id) => consoles.history(id),
    say: (id, text) => consoles.say(id, text),
    drop: (id) => void store.paths.delete(id),
    refuse: (refusing) => {
      store.refusing = refusing
    },
    restart: () => {
      consoles = new FakeConsoles(store)
      return store.paths.size
    },
  }
})

test('fake consoles: a planned fault is met once, before or after the effect', async () => {
  const consoles = new FakeConsoles()
  const fault = new HostFault('console_unprotected', 'storing console-web-1 with systemd')
  consoles.failNext('ensureMaster', fault)
  await assert.rejects(consoles.ensureMaster(web), fault)
  assert.equal((await consoles.inspect(web)).kind, 'absent')
  consoles.failNext('ensureMaster', fault, 'after')
  await assert.rejects(consoles.ensureMaster(web), fault)
  assert.equal((await consoles.inspect(web)).kind, 'stored')
})

/** Real ptys; only systemd is not there. */
consolesContract('console masters', (t) => {
  const store = new MemoryDescriptorStore()
  const newLife = (): ConsoleMasters => new ConsoleMasters({ store, log: silentLog })
  let consoles = newLife()
  t.after(() => {
    consoles.close()
    store.close()
  })
  return {
    consoles: () => consoles,
    history: (id) => consoles.history(id),
    say: async (id, text) => {
      const state = await consoles.inspect(id)
      assert.equal(state.kind, 'stored')
      const slave = openSlave(state.ptsPath)
      for (let at = 0; at < text.length;) {
        at += writeSync(slave, text.slice(at, at + 1024))
        await new Promise(setImmediate)
      }
      closeSync(slave)
    },
    drop: (id) => store.remove(consoleName(id)),
    refuse: (refusing) => {
      store.refusing = refusing
    },
    restart: () => {
      consoles.close()
      consoles = newLife()
      return consoles.adopt()
    },
  }
})
