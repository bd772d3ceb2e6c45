import assert from 'node:assert/strict'
import { test } from 'node:test'
import { HostFault } from '../../src/core/errors.ts'
import { calm } from './chaos.ts'
import { endGuest } from './disturb.ts'
import { setMaintenance } from '../../src/commands/maintenance/set-maintenance.ts'
import { deleteVm } from '../../src/commands/vm/delete-vm.ts'
import { setPower } from '../../src/commands/vm/set-power.ts'
import { vmsLeft } from '../../src/owners/maintenance/drainer.ts'
import { MoveSimulation } from './move-simulation.ts'
import { VM } from './two-hosts.ts'
import type { CommandResult } from '../../src/commands/context.ts'
import type { Life, MoveOptions } from './move-simulation.ts'
import type { Odds } from './chaos.ts'

/** A developer runs more seeds by hand: SIM_SEEDS=2000 node --test test/sim */
const seeds = Number(process.env['SIM_SEEDS'] ?? 24)
const LIVES: readonly Life[] = ['running', 'sleeping', 'paused', 'stopped']
const MISHAPS = 12
/** Steps from one moment of a move that is tried to the next; all are tried if seeds are chosen. */
const STRIDE = process.env['SIM_SEEDS'] === undefined ? 5 : 1

const still = { seed: 1, mode: 'live', powerLoss: false } as const
const DRAINED = { state: 'drained', drain: { guests: 'sleep', graceSeconds: 0, atOnce: 1 } } as const

for (const lives of LIVES) {
  test(`a ${lives} VM moves, with its memory and its disk`, async () => {
    await simulate({ ...still, lives }, async (simulation) => {
      await simulation.move()
      const { source, destination } = simulation
      assert.equal(source.record?.departure?.stage, 'released')
      assert.equal(destination.record?.arrival?.stage, 'released', JSON.stringify(destination.record))
      simulation.checkAtRest()
      await simulation.wake()
      simulation.checkSameGuest()
    })
  })
}

test('a VM that moves cold boots at its destination', async () => {
  await simulate({ ...still, lives: 'running', mode: 'cold' }, async (simulation) => {
    await simulation.move()
    assert.equal(simulation.destination.record?.observed.state, 'running')
    simulation.checkAtRest()
  })
})

test('a VM whose guest has ended for good moves with its disk, and stays ended', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    await simulation.endGuest()
    await simulation.move()
    const { source, destination } = simulation
    assert.equal(source.record?.departure?.stage, 'released')
    assert.equal(destination.record?.observed.state, 'stopped')
    simulation.checkAtRest()
    assert.ok(setPower(destination.context, VM, 'running').ok)
    await simulation.pass(60_000)
    assert.equal(destination.record?.observed.state, 'running')
  })
})

test('a VM that was rebuilt moves with its new disk, which its destination does not make again', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    await simulation.rebuild()
    await simulation.move()
    const { record, host } = simulation.destination
    assert.deepEqual([record?.observed.state, record?.observed.rebuild], ['running', 1])
    const note = host.storage.disks.get(VM)?.note
    assert.deepEqual([note?.rebuild, note?.rootfsSha256], [1, record?.desired.image.rootfsSha256])
    simulation.checkAtRest()
  })
})

/** Lets the VM come as a whole, while no request for its release gets through. */
async function comeUnreleased(simulation: MoveSimulation): Promise<void> {
  const { destination } = simulation
  destination.host.sourceHosts.cuts = ({ request }) => request === 'release'
  simulation.offer()
  await simulation.take(destination)
  await simulation.pass(5000)
  assert.equal(destination.record?.arrival?.stage, 'pulled')
}

test('a destination that has everything hears that the VM was deleted at its source, however late', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    await comeUnreleased(simulation)
    simulation.deleteAt(source)
    await simulation.pass(5000)
    assert.equal(source.record, undefined)
    destination.host.sourceHosts.cuts = () => false
    await simulation.heal()
    assert.equal(destination.record?.arrival?.stage, 'refused')
    simulation.checkAtRest()
  })
})

test('a destination that has everything deletes it for an operator who lost the source, and a source that lives has its guest back', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    await comeUnreleased(simulation)
    simulation.deleteAt(destination, { sourceLost: true })
    await simulation.pass(5000)
    assert.equal(destination.record, undefined)
    assert.equal(source.record?.observed.state, 'running')
    simulation.checkAtRest()
    simulation.checkSameGuest()
  })
})

test('a VM whose release was accepted is not deleted as lost while packets are fetched, however long it was in trouble', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    await comeUnreleased(simulation)
    assert.equal(destination.record?.arrival?.trouble?.code, 'source_unreachable')
    const deletions: CommandResult[] = []
    destination.host.sourceHosts.cuts = ({ request }) => {
      if (request === 'heldPackets' && destination.record?.arrival?.stage === 'pulled')
        deletions.push(deleteVm(destination.context, VM, { sourceLost: true }))
      return false
    }
    await simulation.heal()
    const [first] = deletions
    assert.equal(first?.ok === false && first.error.code, 'source_not_lost')
    assert.equal(source.record?.departure?.stage, 'released')
    assert.equal(destination.record?.observed.state, 'running')
    simulation.checkAtRest()
    simulation.checkSameGuest()
  })
})

test('a guest whose monitor ends while its release is asked for is loaded again before the next request', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    const { monitor } = destination.host
    const asked: string[] = []
    destination.host.sourceHosts.cuts = ({ request, when }) => {
      if (request === 'release' && when === 'before') asked.push(monitor.stateOf(VM).kind)
      return request === 'release' && asked.length < 5
    }
    simulation.offer()
    await simulation.take(destination)
    await simulation.pass(2000)
    assert.ok(asked.length > 0)
    monitor.failNext('ensureRestored', new HostFault('restore_failed', 'the pool is slow'))
    endGuest(destination.host, VM, 1)
    await simulation.pass(300_000)
    assert.deepEqual([...new Set(asked)], ['paused'])
    assert.equal(source.record?.departure?.stage, 'released')
    simulation.checkSameGuest()
  })
})

test('the source of a VM without a network is not asked for packets', async () => {
  await simulate({ ...still, lives: 'running', hasNetwork: false }, async (simulation) => {
    const { source, destination } = simulation
    let asked = 0
    destination.host.sourceHosts.cuts = ({ request }) => {
      if (request === 'heldPackets') asked += 1
      return false
    }
    simulation.offer()
    await simulation.take(destination)
    await simulation.pass(20_000)
    assert.equal(source.record?.departure?.stage, 'released')
    assert.equal(destination.record?.observed.state, 'running')
    assert.equal(asked, 0)
  })
})

for (const request of ['ensureRound', 'release'] as const) {
  test(`a guest goes on at its source if its destination is drained before the ${request === 'release' ? 'release' : 'handover'}`, async () => {
    await simulate({ ...still, lives: 'running' }, async (simulation) => {
      const { source, destination } = simulation
      destination.host.sourceHosts.cuts = (moment) => moment.request === request
      simulation.offer()
      await simulation.take(destination)
      await simulation.pass(5000)
      setMaintenance(destination.context, DRAINED)
      destination.host.sourceHosts.cuts = () => false
      await simulation.pass(10_000)
      assert.equal(source.record?.observed.state, 'running')
      assert.equal(destination.record?.arrival?.because, 'drained')
      simulation.checkSameGuest()
    })
  })
}

test('a drained host keeps no guest loaded while its source is away, and loads it again afterwards', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    await comeUnreleased(simulation)
    destination.host.sourceHosts.isCut = true
    setMaintenance(destination.context, DRAINED)
    await simulation.pass(5000)
    assert.equal(destination.host.fakeUnits.stateOf(VM).kind, 'absent')
    assert.deepEqual(vmsLeft(destination.context), [])
    assert.equal(destination.record?.observed.waitingFor, 'the end of maintenance')
    setMaintenance(destination.context, { state: 'schedulable' })
    await simulation.pass(5000)
    assert.equal(destination.host.monitor.stateOf(VM).kind, 'paused')
    destination.host.sourceHosts.cuts = () => false
    await simulation.heal()
    assert.equal(source.record?.departure?.stage, 'released')
    assert.equal(destination.record?.observed.state, 'running')
    simulation.checkAtRest()
    simulation.checkSameGuest()
  })
})

test('a guest that was released to a drained host goes on there when the maintenance is over', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    destination.host.sourceHosts.cuts = ({ request, when }) =>
      request === 'abort' || (request === 'release' && when === 'after')
    simulation.offer()
    await simulation.take(destination)
    await simulation.pass(5000)
    const stages = () => [source.record?.departure?.stage, destination.record?.arrival?.stage]
    assert.deepEqual(stages(), ['released', 'pulled'])
    setMaintenance(destination.context, DRAINED)
    await simulation.pass(5000)
    assert.equal(destination.host.fakeUnits.stateOf(VM).kind, 'absent')
    destination.host.sourceHosts.cuts = () => false
    await simulation.heal()
    assert.deepEqual(stages(), ['released', 'released'])
    assert.equal(destination.record?.observed.state, 'sleeping')
    assert.equal(destination.host.fakeUnits.stateOf(VM).kind, 'absent')
    setMaintenance(destination.context, { state: 'schedulable' })
    await simulation.heal()
    simulation.checkAtRest()
    simulation.checkSameGuest()
  })
})

test('a guest that is down for the handover does not wait for what went wrong before its handover', async () => {
  await simulate({ ...still, lives: 'running' }, async (simulation) => {
    const { source, destination } = simulation
    const left = new Map([
      ['ensureRound', 8],
      ['console', 1],
    ])
    destination.host.sourceHosts.cuts = ({ request }) => {
      const cuts = left.get(request) ?? 0
      left.set(request, cuts - 1)
      return cuts > 0
    }
    simulation.offer()
    await simulation.take(destination)
    await simulation.pass(300_000)
    assert.ok([...left.values()].every((cuts) => cuts <= 0))
    assert.equal(source.record?.departure?.stage, 'released', JSON.stringify(source.record?.departure))
    simulation.checkSameGuest()
  })
})

/** More moments than any move has; a search that gets here does not end. */
const MOMENTS_MAX = 1000

for (const [who, powerLoss, mode] of [
  ['daemon dies', 0, 'live'],
  ['host loses its power', 1, 'live'],
  ['daemon dies', 0, 'cold'],
] as const) {
  // Only the source ends a guest for a cold move, and must not take that for an end by itself.
  for (const side of mode === 'cold' ? (['source'] as const) : (['source', 'destination'] as const)) {
    test(`a VM moves ${mode}, once and whole, if the ${who} at the ${side}, at any one moment`, async () => {
      let moments = 0
      for (let dieAt = 1; dieAt <= MOMENTS_MAX; dieAt += STRIDE) {
        const died = await simulate(
          { ...still, mode, lives: 'running', powerLoss: powerLoss > 0, endsOnce: mode === 'cold' },
          async (simulation) => {
            const mortal = simulation[side]
            mortal.chaos.restart({ ...calm, dieAt, powerLoss })
            simulation.offer()
            await simulation.take(simulation.destination)
            await simulation.pass(20_000)
            const { isDead } = mortal
            await simulation.heal()
            // The request may have died with its daemon.
            await simulation.take(simulation.destination)
            await simulation.heal()
            simulation.checkAtRest()
            simulation.checkSameGuest()
            return isDead
          },
          `it died at moment ${dieAt}`,
        )
        if (!died) break
        moments = dieAt
      }
      assert.ok(moments > 20 && moments < MOMENTS_MAX, `${moments} moments`)
    })
  }
}

const SHORT_OFFER_MS = 20_000

const histories: Record<string, Odds> = {
  'hosts without faults': calm,
  'hosts whose calls fail': { before: 0.02, after: 0.02, crash: 0 },
  'daemons that die at any call': { before: 0, after: 0, crash: 0.01 },
  'hosts that lose their power': { before: 0.01, after: 0.01, crash: 0.005, powerLoss: 0.5 },
}

for (const [name, odds] of Object.entries(histories)) {
  test(`${name}, cut lines, clocks that are set, and a second destination: never two guests, never none`, async () => {
    const seen = { released: 0, stayed: 0 }
    for (let seed = 1; seed <= seeds; seed += 1) {
      const options: MoveOptions = {
        seed,
        lives: LIVES[seed % LIVES.length] ?? 'running',
        mode: seed % 7 === 0 ? 'cold' : 'live',
        powerLoss: (odds.powerLoss ?? 0) > 0,
        endsOnce: seed % 5 === 0,
      }
      await simulate(
        options,
        async (simulation) => {
          const isLate = seed % 6 === 0
          simulation.offer(isLate || simulation.random() < 0.3 ? SHORT_OFFER_MS : undefined)
          for (const host of simulation.hosts) host.chaos.odds = odds
          // Some are taken late, after other hosts have tried, or when the offer is over.
          if (isLate) await simulation.pass(2 * SHORT_OFFER_MS)
          else if (simulation.random() < 0.5) await simulation.take(simulation.destination)
          for (let mishap = 0; mishap < MISHAPS; mishap += 1) {
            await simulation.disturb(odds)
            simulation.live()
            await simulation.pass(Math.floor(simulation.random() * 4000))
            await simulation.take(simulation.destination)
          }
          await simulation.heal()
          assert.ok(simulation.source.record !== undefined, 'the VM is gone, and was not deleted')
          simulation.checkAtRest()
          simulation.checkSameGuest()
          seen[simulation.source.record?.departure?.stage === 'released' ? 'released' : 'stayed'] += 1
        },
        `seed ${seed} of "${name}"`,
      )
    }
    assert.ok(Math.min(seen.released, seen.stayed) > seeds / 20, JSON.stringify(seen))
  })
}

async function simulate<T>(
  options: MoveOptions,
  task: (simulation: MoveSimulation) => Promise<T>,
  what = 'the move',
): Promise<T> {
  const simulation = new MoveSimulation(options)
  try {
    await simulation.begin()
    return await task(simulation)
  } catch (cause) {
    throw new Error(what, { cause })
  } finally {
    await simulation.close()
  }
}
