import assert from 'node:assert/strict'
import { test } from 'node:test'
import { limits } from '../../config/limits.ts'
import { eventStream, startOf } from './event-stream.ts'
import type { EventBody, StoredEvent } from '../../core/events/event.ts'
import type { VmId } from '../../core/ids.ts'
import type { EventStreamOptions } from './event-stream.ts'

const body: EventBody = {
  kind: 'admission_refused',
  vmId: 'web-1' as VmId,
  code: 'insufficient_capacity',
  detail: 'the host is short',
}
const event = (sequence: number): StoredEvent => ({ sequence, atMs: 0, body })

/** A source of events whose reader waits by itself, and a clock. */
class Stage {
  events: StoredEvent[] = []
  newest = 0
  keptAfter = 0
  nowMs = 0
  flushes = 0
  readonly ending = new AbortController()
  /** Acts, one for each wait. */
  meanwhile: ((ms: number) => void)[] = []

  append(...sequences: readonly number[]): void {
    this.events.push(...sequences.map(event))
    this.newest = sequences.at(-1) ?? this.newest
  }

  read(options: Partial<EventStreamOptions> = {}): Promise<readonly string[]> {
    const stream = eventStream(this.#source(), {
      follow: true,
      signal: this.ending.signal,
      wait: async (ms) => {
        const next = this.meanwhile.shift()
        if (next === undefined) this.ending.abort()
        else next(ms)
      },
      monotonicMs: () => this.nowMs,
      ...options,
    })
    return Array.fromAsync(stream)
  }

  #source() {
    const list = ({ after, limit }: { after: number; limit: number }) =>
      this.events.filter(({ sequence }) => sequence > after).slice(0, limit)
    const flushed = async (): Promise<void> => void (this.flushes += 1)
    const newest = (): number => this.newest
    const keptAfter = (): number => this.keptAfter
    return {
      list,
      flushed,
      get newest() {
        return newest()
      },
      get keptAfter() {
        return keptAfter()
      },
      beganAfter: 0,
      atOpening: { written: 0, reserved: 0 },
    }
  }
}

const idsOf = (texts: readonly string[]): readonly string[] =>
  [...texts.join('').matchAll(/^id: (\d+)$/gm)].map(([, id = '']) => id)
const startsOf = (texts: readonly string[]): readonly unknown[] =>
  [...texts.join('').matchAll(/^event: start\nid: \d+\ndata: (.*)$/gm)].map(([, data = '']) =>
    JSON.parse(data),
  )

test('a stream begins with where it begins, and has each event with its number as id', async () => {
  const stage = new Stage()
  stage.append(3, 7)
  const texts = await stage.read({ after: 0, follow: false })
  assert.deepEqual(startsOf(texts), [{ after: 0, kept_after: 0, missed: false }])
  assert.deepEqual(idsOf(texts), ['0', '3', '7'])
  assert.match(texts.at(-1) ?? '', /^id: 3\ndata: \{"sequence":3,.*\}\n\nid: 7\ndata: \{.*\}\n\n$/)
  assert.equal(stage.flushes, 1, 'what is shown is on the disk')
})

test('without a number a stream begins now, and goes on with what comes', async () => {
  const stage = new Stage()
  stage.append(3)
  stage.meanwhile = [() => stage.append(5), () => stage.append(6, 8)]
  assert.deepEqual(idsOf(await stage.read()), ['3', '5', '6', '8'])
})

test('many events come in batches, and none is left out', async () => {
  const stage = new Stage()
  const numbers = Array.from({ length: 2 * limits.eventsBatch + 1 }, (_, at) => at + 1)
  stage.append(...numbers)
  assert.deepEqual(idsOf(await stage.read({ after: 0, follow: false })), [0, ...numbers].map(String))
})

/** 17 and 18 may be of progress that an earlier process showed, and did not write. */
const OPENING = { written: 16, reserved: 19 }

for (const [what, wanted, start, beganAfter = 0] of [
  ['all of it is kept', 10, { after: 10, kept_after: 10, missed: false }],
  ['some is not kept', 9, { after: 10, kept_after: 10, missed: true }],
  ['the number is of another host', 21, { after: 10, kept_after: 10, missed: true }],
  ['nothing is asked for', undefined, { after: 20, kept_after: 10, missed: false }],
  ['the number is of a lost store', 14, { after: 10, kept_after: 10, missed: true }, 15],
  ['it is where the store began', 15, { after: 15, kept_after: 10, missed: false }, 15],
  ['all progress up to it was written', 16, { after: 16, kept_after: 10, missed: false }],
  ['it is of progress that was lost with the daemon', 18, { after: 16, kept_after: 10, missed: true }],
  ['it is where this process began', 19, { after: 19, kept_after: 10, missed: false }],
] as const) {
  test(`the beginning of a stream when ${what}`, () => {
    assert.deepEqual(startOf({ newest: 20, keptAfter: 10, beganAfter, atOpening: OPENING }, wanted), start)
  })
}

test('a new store has all its events, and a reader that asks for all lacks none', () => {
  const start = startOf({ newest: 20, keptAfter: 0, beganAfter: 15, atOpening: OPENING }, 0)
  assert.deepEqual(start, { after: 0, kept_after: 0, missed: false })
})

test('a reader that is overtaken by the removal of old events is informed', async () => {
  const stage = new Stage()
  stage.append(1)
  stage.meanwhile = [
    () => {
      stage.events = []
      stage.append(30)
      stage.keptAfter = 29
    },
  ]
  const texts = await stage.read({ after: 1 })
  assert.deepEqual(startsOf(texts).at(-1), { after: 29, kept_after: 29, missed: true })
  assert.deepEqual(idsOf(texts), ['1', '29', '30'])
})

test('silence is broken by a comment, which brings a reader past events that it does not want', async () => {
  const stage = new Stage()
  const waited: number[] = []
  const pass = (ms: number): void => {
    waited.push(ms)
    stage.nowMs += ms
  }
  stage.meanwhile = [
    pass,
    (ms) => {
      stage.nowMs += 1000
      stage.newest = 9
      waited.push(ms)
    },
    pass,
  ]
  const texts = await stage.read()
  assert.deepEqual(texts.slice(1), [':\n\n', ':\nid: 9\n\n'])
  assert.deepEqual(waited, [limits.eventHeartbeatMs, limits.eventHeartbeatMs, limits.eventHeartbeatMs - 1000])
})
