import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { TestContext } from 'node:test'
import type { VmId } from '../../src/core/ids.ts'
import { FrameDecoder } from '../../src/core/migration/frame-decoder.ts'
import type { Frame } from '../../src/core/migration/frames.ts'
import { streamChecks } from '../../src/host/rounds/stream-checks.ts'
import type { SavedStates } from '../../src/ports/saved-states.ts'
import { isFault, monitor, published, terms } from './saved-states.contract.ts'
import type { SavedStatesStage } from './saved-states.contract.ts'

type Sides = { readonly source: SavedStatesStage; readonly destination: SavedStatesStage }

const id = 'web-1' as VmId
const never = new AbortController().signal

/** Promises of two pools about a saved guest that moves from one to the other. */
export function savedMovesContract(
  name: string,
  set: (t: TestContext) => Promise<SavedStatesStage>,
  options: { readonly skip?: string | false } = {},
): void {
  const promise = (what: string, body: (sides: Sides) => Promise<void>): void => {
    test(`${name}: ${what}`, options, async (t) => {
      const [source, destination] = [await set(t), await set(t)]
      await published(source)
      await destination.makeDisk(id)
      await body({ source, destination })
    })
  }
  promiseArrival(promise)
  promiseStreams(promise)
}

type Promising = (what: string, body: (sides: Sides) => Promise<void>) => void

/** Copies the frames of a whole stream. */
async function framesFrom(states: SavedStates): Promise<Frame[]> {
  const { lengthBytes } = await described(states)
  const decoder = new FrameDecoder({ sizeBytes: lengthBytes, checks: streamChecks })
  const frames: Frame[] = []
  for await (const chunk of states.frames(id, 0, never))
    for (const frame of decoder.push(chunk)) frames.push(copied(frame))
  assert.ok(decoder.isWhole)
  assert.ok(frames.length > 1, `${frames.length} frames`)
  return frames
}

/** A frame is valid until the next one is requested. */
const copied = (frame: Frame): Frame =>
  frame.kind === 'data' ? { ...frame, bytes: Uint8Array.from(frame.bytes) } : frame

async function described(
  states: SavedStates,
): Promise<NonNullable<Awaited<ReturnType<SavedStates['describe']>>>> {
  const memory = await states.describe(id)
  assert.ok(memory !== undefined)
  return memory
}

async function brought(
  { destination: { states, userId } }: Sides,
  frames: readonly Frame[],
  lengthBytes: number,
): Promise<void> {
  const file = await states.openIncoming(id, userId, lengthBytes)
  for (const frame of frames) await file.write(frame)
  await file.flush()
  await file.close()
}

async function assertArrived({ source, destination }: Sides): Promise<void> {
  const { states } = destination
  const [was, is] = [await source.states.inspect(id, monitor), await states.inspect(id, monitor)]
  assert.ok(was.kind === 'present' && is.kind === 'present', JSON.stringify(is))
  // The file system may have given the source's file more room than it uses.
  assert.deepEqual({ ...is, sizeMib: was.sizeMib }, was)
  await states.verify(id, never)
  assert.ok(await destination.isReadable(id))
  const [from, to] = [await source.contentOf(id), await destination.contentOf(id)]
  assert.ok(Buffer.from(from).equals(to))
}

function promiseArrival(promise: Promising): void {
  promise('a saved state that was moved is present, whole and the same', async (sides) => {
    const { source, destination } = sides
    const { lengthBytes, terms: moved } = await described(source.states)
    assert.deepEqual(moved, terms)
    await brought(sides, await framesFrom(source.states), lengthBytes)
    assert.equal((await destination.states.inspect(id, monitor)).kind, 'unfinished')
    await destination.states.publish(id, moved, never)
    await assertArrived(sides)
    await destination.reopen().verify(id, never)
  })

  promise('it belongs to the disk that the VM has at its publication', async (sides) => {
    const { source, destination } = sides
    const { lengthBytes } = await described(source.states)
    await brought(sides, await framesFrom(source.states), lengthBytes)
    await destination.writeDisk(id)
    await destination.states.publish(id, terms, never)
    assert.equal((await destination.states.inspect(id, monitor)).kind, 'present')
    await destination.writeDisk(id)
    assert.equal((await destination.states.inspect(id, monitor)).kind, 'unusable')
  })

  promise('a memory that is opened again begins again', async (sides) => {
    const { source, destination } = sides
    const frames = await framesFrom(source.states)
    const { lengthBytes } = await described(source.states)
    const { states, userId } = destination
    const earlier = await states.openIncoming(id, userId, lengthBytes)
    const stray = (offset: number): Frame => ({
      kind: 'data',
      offset,
      length: 4096,
      bytes: new Uint8Array(4096).fill(7),
    })
    await earlier.write(stray(0))
    await brought(sides, frames, lengthBytes)
    await earlier.write(stray(lengthBytes / 2))
    await earlier.close()
    await states.publish(id, terms, never)
    await assertArrived(sides)
  })

  promise('a frame beyond the length of the memory is refused', async ({ destination }) => {
    const file = await destination.states.openIncoming(id, destination.userId, 8192)
    const bytes = new Uint8Array(4096)
    await file.write({ kind: 'data', offset: 4096, length: 4096, bytes })
    await assert.rejects(file.write({ kind: 'data', offset: 4097, length: 4096, bytes }), /within its file/)
    await assert.rejects(file.write({ kind: 'hole', offset: 0, length: 8193 }), /within its file/)
    await file.close()
  })
}

function promiseStreams(promise: Promising): void {
  promise(
    'a stream that was cut continues at the end of any frame, also after a restart',
    async ({ source }) => {
      const frames = await framesFrom(source.states)
      const { lengthBytes } = await described(source.states)
      const whole = await Array.fromAsync(source.states.frames(id, 0, never), (chunk) => Buffer.from(chunk))
      for (const states of [source.states, source.reopen()]) {
        const decoder = new FrameDecoder({ sizeBytes: lengthBytes, checks: streamChecks })
        const got = [...decoder.push(Buffer.concat(whole.slice(0, 2)).subarray(0, -1))].length
        let rest = 0
        for await (const chunk of states.frames(id, decoder.cut(), never))
          rest += [...decoder.push(chunk)].length
        assert.ok(decoder.isWhole)
        assert.ok(got > 0 && rest > 0)
        assert.equal(got + rest, frames.length)
      }
    },
  )

  promise(
    'a VM without a saved state has nothing to describe or to send',
    async ({ destination: { states } }) => {
      assert.equal(await states.describe(id), undefined)
      await states.ensureDirectory(id)
      assert.equal(await states.describe(id), undefined)
      await assert.rejects(Array.fromAsync(states.frames(id, 0, never)), isFault('saved_state_corrupt'))
    },
  )

  promise('altered memory is not sent', async ({ source }) => {
    await source.damage(id)
    const frames = source.reopen().frames(id, 0, never)
    await assert.rejects(Array.fromAsync(frames), isFault('saved_state_corrupt'))
  })

  promise('an aborted stream ends with its reason', async ({ source: { states } }) => {
    const reason = new Error('the line was cut')
    await assert.rejects(Array.fromAsync(states.frames(id, 0, AbortSignal.abort(reason))), reason)
    const controller = new AbortController()
    const reading = async (): Promise<void> => {
      for await (const _chunk of states.frames(id, 0, controller.signal)) controller.abort(reason)
    }
    await assert.rejects(reading(), reason)
  })
}
