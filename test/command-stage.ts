import assert from 'node:assert/strict'
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createVm } from '../src/commands/vm/create-vm.ts'
import { SignedUrl } from '../src/core/outbound/signed-url.ts'
import { Store } from '../src/store/store.ts'
import { composed, listening } from './composed.ts'
import { FakeCapacity } from './fakes/fake-capacity.ts'
import { FakeClock } from './fakes/fake-clock.ts'
import { FakeHost } from './fakes/fake-host.ts'
import type { TestContext } from 'node:test'
import type { Accepted, CommandContext, CommandResult } from '../src/commands/context.ts'
import type { Rejection } from '../src/core/errors.ts'
import type { CreateVm } from '../src/core/vm/create.ts'
import type { Sha256, VmId } from '../src/core/ids.ts'
import type { ObservedState } from '../src/core/vm/record.ts'

/** Returns a request to create a VM that a test can vary; `signature` stands in its URLs only. */
export const createRequest = (changes: Partial<CreateVm> = {}, signature = '1'): CreateVm => ({
  power: 'running',
  compute: { cpuMillicores: 1000, memoryMib: 256, sleepAfterIdleSeconds: 0 },
  disk: { sizeMib: 64 },
  image: {
    images: [
      {
        role: 'rootfs',
        sha256: 'a'.repeat(64) as Sha256,
        source: { url: new SignedUrl('https://i.example/a') },
      },
      {
        role: 'kernel',
        sha256: 'b'.repeat(64) as Sha256,
        source: { url: new SignedUrl(`https://i.example/b?signature=${signature}`) },
      },
    ],
  },
  network: { ipv4Address: '192.0.2.10' },
  metadata: { labels: {}, protected: false },
  sshAuthorizedKeys: [],
  ...changes,
})

type Writable<T> = { -readonly [K in keyof T]: T[K] }

/** Opens a store in a directory of its own, with the context that commands need. */
export function commandStage(t: TestContext, userIds = 10) {
  const directory = mkdtempSync(join(tmpdir(), 'vmhostd-commands-'))
  const store = new Store(directory, { first: 600_000, count: userIds })
  t.after(() => {
    store.close()
    rmSync(directory, { recursive: true })
  })
  const id = 'web-1' as VmId
  const capacity = new FakeCapacity()
  const pokes: string[] = []
  const host = new FakeHost(new FakeClock({ nowMs: 1000 }), store.storeId)
  const actors = listening((line) => pokes.push(line))
  const parts = composed({ store, host, instead: { capacity, actors } })
  const context: Writable<CommandContext> = parts.commands
  return {
    directory,
    store,
    id,
    capacity,
    pokes,
    context,
    /** The VMs that this host offers, as other hosts ask for them. */
    departures: () => parts.coordination.departures() ?? assert.fail('the store is not open'),
    create: (changes: Partial<CreateVm> = {}, name: string = id) =>
      createVm(context, name as VmId, createRequest(changes)),
    /** Records an observation, as if a pass had made it. A VM observed as stopped has also completed its stop. */
    seenAs: (state: ObservedState) => {
      const { accepted = 0 } = (state === 'stopped' ? store.vms.get(id)?.stops : undefined) ?? {}
      const stops = accepted === 0 ? {} : { stopCarriedOut: accepted }
      return store.vms.recordProgress(id, { observed: { state, sinceMs: 1000 }, ...stops, nowMs: 1000 })
    },
    accepted: (result: CommandResult): Accepted => {
      assert.ok(result.ok, result.ok ? '' : JSON.stringify(result.error))
      return result.value
    },
    refusal: (result: CommandResult): { code: string; text: string; errors: Rejection['errors'] } => {
      assert.ok(!result.ok, 'it was accepted')
      const { error } = result
      if ('known' in error) return { code: error.code, text: error.message, errors: undefined }
      return { code: error.code, text: error.detail, errors: error.errors }
    },
  }
}
