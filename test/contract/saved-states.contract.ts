import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import type { SavedState, SaveTerms, SavingMonitor } from '../../src/core/world/saved-state.ts'
import type { UserId, VmId } from '../../src/core/ids.ts'
import type { SavedStates } from '../../src/ports/saved-states.ts'

/** Saved states under test, and their surroundings. */
export type SavedStatesStage = {
  readonly states: SavedStates
  readonly userId: UserId
  /** Makes the VM's disk. */
  readonly makeDisk: (id: VmId) => Promise<void> | void
  /** The monitor saves its guest: the file exists, and has the size of the guest. */
  readonly save: (id: VmId) => Promise<void> | void
  /** Whether the VM's monitor, in its own process, could read the published state. */
  readonly isReadable: (id: VmId) => Promise<boolean> | boolean
  /** The guest writes to its disk. */
  readonly writeDisk: (id: VmId) => Promise<void> | void
  /** Alters a published memory without changing its length. */
  readonly damage: (id: VmId) => Promise<void> | void
  /** Removes the memory of a published state. */
  readonly loseMemory: (id: VmId) => Promise<void> | void
  /** Returns the same pool after a restart of the daemon. */
  readonly reopen: () => SavedStates
  /** Returns the published memory. */
  readonly contentOf: (id: VmId) => Promise<Uint8Array> | Uint8Array
  /** Hides the pool, as an unmount does, or brings it back. */
  readonly setInSight: (inSight: boolean) => Promise<void> | void
}

const id = 'web-1' as VmId
const other = 'web-2' as VmId
const never = new AbortController().signal

export const monitor: SavingMonitor = {
  program: 'qemu-system-x86_64',
  version: '10.0.13',
  accelerator: 'tcg',
  form: 'mapped',
}
export const terms: SaveTerms = {
  savedAtMs: 1_700_000_000_123,
  monitor,
  compute: { cpuMillicores: 1000, memoryMib: 8 },
}

export const isFault = (code: string) => (error: unknown) => error instanceof HostFault && error.code === code

/** Promises of every pool about saved guests; `set` makes a stage and registers its own clean-up. */
export function savedStatesContract(
  name: string,
  set: (t: TestContext) => Promise<SavedStatesStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (stage: SavedStatesStage) => Promise<void>): void => {
    test(`${name}: ${what}`, options, async (t) => body(await set(t)))
  }
  promisePublication(promise)
  promisePlaces(promise)
  promiseRefusal(promise)
  promiseRemoval(promise)
}

type Promising = (what: string, body: (stage: SavedStatesStage) => Promise<void>) => void

async function saved(stage: SavedStatesStage, vm: VmId): Promise<void> {
  await stage.makeDisk(vm)
  await stage.states.ensureMemoryFile(vm, stage.userId)
  await stage.save(vm)
}

export async function published(stage: SavedStatesStage, vm: VmId = id): Promise<void> {
  await saved(stage, vm)
  await stage.states.publish(vm, terms, never)
}

async function assertUnusable(states: SavedStates, code: string, by = monitor): Promise<void> {
  const state = await states.inspect(id, by)
  assert.ok(state.kind === 'unusable', JSON.stringify(state))
  assert.equal(state.code, code)
  assert.match(state.because, /^the saved state is not restored: ./)
}

const kindOf = async (states: SavedStates, vm = id): Promise<SavedState['kind']> =>
  (await states.inspect(vm, monitor)).kind

function promisePublication(promise: Promising): void {
  promise('a save is absent, then unfinished, then published, with its time and size', async (stage) => {
    const { states } = stage
    assert.equal(await kindOf(states), 'absent')
    await stage.makeDisk(id)
    await states.ensureDirectory(id)
    assert.equal(await kindOf(states), 'absent')
    await states.ensureMemoryFile(id, stage.userId)
    assert.equal(await kindOf(states), 'absent')
    await stage.save(id)
    assert.equal(await kindOf(states), 'unfinished')
    await states.publish(id, terms, never)
    const state = await states.inspect(id, monitor)
    assert.ok(state.kind === 'present', JSON.stringify(state))
    assert.equal(state.savedAtMs, terms.savedAtMs)
    assert.equal(state.memoryMib, 8)
    assert.ok(state.sizeMib > 0 && Number.isInteger(state.sizeMib))
    await states.verify(id, never)
    assert.ok(await stage.isReadable(id))
    assert.equal(await kindOf(states, other), 'absent')
  })

  promise('a published state is there after a restart of the daemon, whole', async (stage) => {
    await published(stage)
    const again = stage.reopen()
    assert.equal(await kindOf(again), 'present')
    await again.verify(id, never)
  })

  promise('an aborted publication publishes nothing, and a new save can be published', async (stage) => {
    const { states } = stage
    await saved(stage, id)
    const reason = new Error('traffic came')
    await assert.rejects(states.publish(id, terms, AbortSignal.abort(reason)), reason)
    assert.equal(await kindOf(states), 'unfinished')
    await states.remove(id)
    assert.equal(await kindOf(states), 'absent')
    await stage.save(id)
    await states.publish(id, terms, never)
    assert.equal(await kindOf(states), 'present')
    await states.verify(id, never)
  })

  promise('nothing is published if a flush failed while the monitor wrote', async (stage) => {
    const { states } = stage
    await saved(stage, id)
    const flushed = Promise.reject(new HostFault('storage_failed', 'flushing the memory'))
    // The publication looks at it later.
    flushed.catch(() => {})
    await assert.rejects(states.publish(id, terms, never, flushed), isFault('storage_failed'))
    assert.equal(await kindOf(states), 'unfinished')
  })

  promise('nothing is published if the monitor wrote no memory', async (stage) => {
    const { states } = stage
    await stage.makeDisk(id)
    await states.ensureDirectory(id)
    await assert.rejects(states.publish(id, terms, never), isFault('save_failed'))
    await states.ensureMemoryFile(id, stage.userId)
    await assert.rejects(states.publish(id, terms, never), isFault('save_failed'))
    assert.equal(await kindOf(states), 'absent')
  })
}

function promisePlaces(promise: Promising): void {
  promise('making the directory or the file again sweeps unfinished saves only', async (stage) => {
    const { states, userId } = stage
    for (const again of [() => states.ensureDirectory(id), () => states.ensureMemoryFile(id, userId)]) {
      await saved(stage, id)
      await again()
      assert.equal(await kindOf(states), 'absent')
    }
    await published(stage)
    for (const again of [() => states.ensureDirectory(id), () => states.ensureMemoryFile(id, userId)]) {
      await again()
      assert.equal(await kindOf(states), 'present')
    }
    await states.verify(id, never)
  })

  promise(
    'each VM has paths of its own, and the path for writing differs from the published one',
    async ({ states }) => {
      const [mine, theirs] = [states.paths(id), states.paths(other)]
      assert.equal(new Set([...Object.values(mine), ...Object.values(theirs)]).size, 6)
      assert.ok(mine.writing.startsWith(`${mine.directory}/`))
      assert.ok(!mine.published.startsWith(`${mine.directory}/`))
    },
  )
}

function promiseRefusal(promise: Promising): void {
  promise('altered memory is refused before the guest runs, and is kept', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.damage(id)
    await assert.rejects(states.verify(id, never), isFault('saved_state_corrupt'))
    assert.notEqual(await kindOf(states), 'absent')
  })

  promise('a state without its memory is damaged, and is kept', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.loseMemory(id)
    await assertUnusable(states, 'saved_state_corrupt')
    await assert.rejects(states.verify(id, never), isFault('saved_state_corrupt'))
  })

  promise('a disk that was written after the save makes the state foreign', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.writeDisk(id)
    await assertUnusable(states, 'saved_state_foreign')
  })

  promise('a state is for the monitor that wrote it, or a newer one of its kind', async (stage) => {
    const { states } = stage
    await published(stage)
    for (const version of ['10.0.9', '10.0', '9.2.0', '9']) {
      await assertUnusable(states, 'saved_state_too_new', { ...monitor, version })
    }
    for (const version of ['10.0.13', '10.1', '11.0.0']) {
      assert.equal((await states.inspect(id, { ...monitor, version })).kind, 'present', version)
    }
    await assertUnusable(states, 'saved_state_foreign', { ...monitor, accelerator: 'kvm' })
    await assertUnusable(states, 'saved_state_foreign', { ...monitor, program: 'qemu-system-aarch64' })
  })

  promise('an aborted check rejects with the reason', async (stage) => {
    await published(stage)
    const reason = new Error('desired power is stopped')
    await assert.rejects(stage.states.verify(id, AbortSignal.abort(reason)), reason)
  })
}

function promiseRemoval(promise: Promising): void {
  promise(
    'removal takes the published and unfinished states of one VM, and can be repeated',
    async (stage) => {
      const { states } = stage
      await published(stage)
      await published(stage, other)
      await stage.save(id)
      for (let round = 0; round < 2; round += 1) {
        await states.remove(id)
        assert.equal(await kindOf(states), 'absent')
        assert.equal(await stage.isReadable(id), false)
      }
      assert.equal(await kindOf(states, other), 'present')
      await states.verify(other, never)
    },
  )

  promise('removal of the published state leaves the unfinished one, and can be repeated', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.save(id)
    for (let round = 0; round < 2; round += 1) {
      await states.removePublished(id)
      assert.equal(await kindOf(states), 'unfinished')
      assert.equal(await stage.isReadable(id), false)
    }
    await states.remove(id)
    assert.equal(await kindOf(states), 'absent')
  })

  promise('a damaged state is removed like any other', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.loseMemory(id)
    await states.remove(id)
    assert.equal(await kindOf(states), 'absent')
  })

  promise('a hidden pool is unknown, never without a saved state, and keeps it', async (stage) => {
    const { states } = stage
    await published(stage)
    await stage.setInSight(false)
    const unknown = isFault('storage_inspection_failed')
    for (const ask of [
      () => states.inspect(id, monitor),
      () => states.inspect(other, monitor),
      () => states.removePublished(id),
      () => states.remove(id),
      () => states.ensureDirectory(id),
      () => states.ensureMemoryFile(id, stage.userId),
      () => states.publish(id, terms, never),
      () => states.verify(id, never),
      () => states.describe(id),
      () => states.frames(id, 0, never)[Symbol.asyncIterator]().next(),
      () => states.openIncoming(id, stage.userId, 4096),
    ]) {
      await assert.rejects(ask(), unknown)
    }
    await stage.setInSight(true)
    assert.equal(await kindOf(states), 'present')
  })
}
