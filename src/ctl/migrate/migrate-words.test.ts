import assert from 'node:assert/strict'
import { test } from 'node:test'
import { vmOnWire } from '../../../test/vm-on-wire.ts'
import { stageWords, whereWords } from './migrate-words.ts'
import type { Vm } from '../../client/api-client.ts'
import type { Move } from './hosts.ts'

type Handover = {
  readonly power?: Vm['desired']['power']
  readonly state: Vm['observed']['state']
  readonly mode: 'live' | 'cold'
}

/** Returns the words for a VM that is handed over, before and after its guest is down. */
function wordsFor({ power = 'running', state, mode }: Handover): readonly string[] {
  const move = { source: { url: 'https://10.0.0.1:9000' }, destination: { url: 'https://10.0.0.2:9000' } }
  const [migration_id, at] = ['move-7', '2030-01-01T00:00:00.000Z']
  return (['handing_over', 'handed_over'] as const).map((stage) => {
    const here = vmOnWire('web-1', {
      desired: { power, migration: { migration_id, node: 'host-2', mode, expires_at: at } },
      observed: { state, migration: { migration_id, stage, stage_since: at } },
    })
    return stageWords({ here }, move as unknown as Move)
  })
}

test('a guest that moves with its memory is saved for the handover', () => {
  assert.deepEqual(wordsFor({ state: 'running', mode: 'live' }), [
    'the guest is down for the handover and is being saved',
    'the guest is down for the handover; copying what is left',
  ])
  assert.deepEqual(wordsFor({ state: 'sleeping', mode: 'live' }), [
    'the guest is down for the handover and is saved',
    'the guest is down for the handover; copying what is left',
  ])
})

test('a guest that moves without its memory is stopped for the handover, and not saved', () => {
  assert.deepEqual(wordsFor({ state: 'running', mode: 'cold' }), [
    'the guest is being stopped for the handover',
    'the guest is stopped for the handover; copying what is left of its disk',
  ])
})

test('of a VM that is stopped only the disk is handed over', () => {
  for (const mode of ['live', 'cold'] as const)
    for (const power of ['stopped', 'running'] as const)
      assert.deepEqual(wordsFor({ power, state: 'stopped', mode }), [
        'the guest is stopped for the handover',
        'the guest is stopped for the handover; copying what is left of its disk',
      ])
})

for (const [stage, words] of [
  [
    'pulling',
    'web-1 is not at 10.0.0.1 yet: migration move-7 brings it there, and until its release it belongs to its source',
  ],
  [
    'pulled',
    'web-1 is not at 10.0.0.1 yet: migration move-7 brings it there, and until its release it belongs to its source',
  ],
  ['refused', 'web-1 did not come to 10.0.0.1 by migration move-7, which has ended'],
  ['released', 'web-1 is at 10.0.0.1 (pending), as if no move had been requested'],
] as const)
  test(`the place of a guest is not the host to which it comes: ${stage}`, () => {
    const move = {
      id: 'web-1',
      source: { url: 'https://10.0.0.1:9000' },
      destination: { url: 'https://10.0.0.2:9000' },
    }
    const here = vmOnWire('web-1', {
      observed: { state: 'pending', arrival: { migration_id: 'move-7', stage, round: 1 } },
    })
    assert.equal(whereWords({ here }, move as unknown as Move), words)
  })

for (const [because, words] of [
  ['expired', 'stays at 10.0.0.1'],
  ['deleted', 'was deleted at 10.0.0.1'],
] as const)
  test(`a move that ended at its source says what became of the VM there: ${because}`, () => {
    const move = { id: 'web-1', source: { url: 'https://10.0.0.1:9000' }, destination: {} }
    const migration = {
      migration_id: 'move-7',
      stage: 'withdrawn' as const,
      stage_since: '2030-01-01T00:00:00.000Z',
      withdrawn_because: because,
    }
    const here = vmOnWire('web-1', { observed: { state: 'deleting', migration } })
    assert.equal(stageWords({ here }, move as unknown as Move), words)
  })
