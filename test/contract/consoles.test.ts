import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { DEFAULT_WINDOW } from '../../src/core/console/console-viewer.ts'
import { HostFault } from '../../src/core/errors.ts'
import { consoleName } from '../../src/core/unit/unit-spec.ts'
import type { VmId } from '../../src/core/ids.ts'
import { ConsoleMasters } from '../../src/host/pty/console-masters.ts'
import { silentLog } from '../../src/log/log.ts'
import { FakeConsoles, fakeDescriptorStore } from '../fakes/fake-consoles.ts'
import { MemoryDescriptorStore } from '../fakes/memory-descriptor-store.ts'
import { ConsoleFollower, textOf, viewSession } from './console-follower.ts'
import { consolesContract } from './consoles.contract.ts'
import { realTerminals } from './real-terminals.ts'
import type { Consoles } from '../../src/ports/consoles.ts'
import type { ConsolesStage } from './consoles-stage.ts'

const web = 'web-1' as VmId

type Life = { readonly consoles: Consoles; readonly follower: ConsoleFollower }

/** The viewers' side, when it is in this process. */
function sessionsOf(
  life: () => Life,
): Pick<ConsolesStage, 'view' | 'last' | 'moved' | 'heard' | 'offered' | 'type' | 'passInput' | 'resize'> {
  const session = (id: VmId) => life().consoles.session(id)
  return {
    view: (id, since) => viewSession(session(id), since),
    last: (id) => textOf(life().consoles.lastSession(id)),
    moved: (id) => life().consoles.history(id),
    heard: (id) => life().follower.of(id),
    offered: () => life().follower.offered,
    type: (id, text) => session(id)?.write(Buffer.from(text)),
    passInput: (id) => life().consoles.passInput(id),
    resize: (id, size) => session(id)?.resize(size),
  }
}

consolesContract('fake consoles', () => {
  const store = fakeDescriptorStore()
  const newLife = () => {
    const consoles = new FakeConsoles(store)
    return { consoles, follower: new ConsoleFollower(consoles) }
  }
  let life = newLife()
  return {
    ...sessionsOf(() => life),
    consoles: () => life.consoles,
    say: (id, text) => life.consoles.say(id, text),
    readInput: (id, reading) => life.consoles.session(id)?.readInput(reading),
    typed: (id) => store.terminals.get(id)?.typed ?? '',
    window: (id) => store.terminals.get(id)?.window ?? DEFAULT_WINDOW,
    drop: (id) => void store.terminals.delete(id),
    refuse: (refusing) => {
      store.refusing = refusing
    },
    limit: (places) => {
      store.places = places
    },
    restart: () => {
      life.consoles.close()
      life = newLife()
      return life.consoles.adopt()
    },
  }
})

test('fake consoles: a planned fault happens once, before or after the effect', async () => {
  const consoles = new FakeConsoles()
  const fault = new HostFault('console_unprotected', 'storing console-web-1 with systemd')
  consoles.failNext('ensureMaster', fault)
  await assert.rejects(consoles.ensureMaster(web), fault)
  assert.equal((await consoles.inspect(web)).kind, 'absent')
  consoles.failNext('ensureMaster', fault, 'after')
  await assert.rejects(consoles.ensureMaster(web), fault)
  assert.equal((await consoles.inspect(web)).kind, 'stored')
})

/** Real ptys; only systemd is missing. */
consolesContract('console masters', (t) => {
  const store = new MemoryDescriptorStore()
  const runDirectory = mkdtempSync(join(tmpdir(), 'consoles-'))
  const newLife = () => {
    const consoles = new ConsoleMasters({ store, runDirectory, log: silentLog })
    return { consoles, follower: new ConsoleFollower(consoles) }
  }
  let life = newLife()
  const terminals = realTerminals(() => life.consoles)
  t.after(() => {
    terminals.close()
    life.consoles.close()
    store.close()
    rmSync(runDirectory, { recursive: true })
  })
  return {
    ...sessionsOf(() => life),
    ...terminals,
    consoles: () => life.consoles,
    drop: (id) => store.remove(consoleName(id)),
    refuse: (refusing) => {
      store.refusing = refusing
    },
    limit: (places) => {
      store.max = places
    },
    restart: () => {
      life.consoles.close()
      life = newLife()
      return life.consoles.adopt()
    },
  }
})
