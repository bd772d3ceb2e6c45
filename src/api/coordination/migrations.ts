import { BODY_CODES, noQuery, problems, requestIdHeader } from '../listener/answers.ts'
import { onceOpen } from '../listener/refused.ts'
import { manifestToWire } from '../wire/manifest.ts'
import { handOverToWire, roundToWire } from '../wire/moves-to-wire.ts'
import { ref } from '../wire/named.ts'
import { granted, MOVE_CODES } from './refusals.ts'
import { idParams, moveOf, offerOf, POOL_FAULTS, tags } from './requests.ts'
import { readRoutes } from './reads.ts'
import { sendWhenReady, whileConnected } from './streams.ts'
import type { App } from '../listener/app.ts'
import type { ManifestWire } from '../wire/manifest.ts'
import type { CoordinationDependencies, Departures } from './dependencies.ts'

/** Serves the offers of this host to the nodes that they name, and takes their requests. */
export function migrationRoutes(app: App, dependencies: CoordinationDependencies): void {
  const departures = (): Departures => onceOpen(dependencies.departures())
  getMigration(app, departures)
  takeRound(app, departures, dependencies)
  handOver(app, departures, dependencies)
  endMove(app, departures)
  readRoutes(app, dependencies)
}

type Source = () => Departures

function getMigration(app: App, departures: Source): void {
  const schema = {
    operationId: 'getMigration',
    tags,
    summary: 'Get an offered VM',
    description:
      'What the offer is, how far the VM has left this host, and what a destination must have to take it. Only the node that the ' +
      'offer names sees it, and only until the migration is decided; for any other node there is no such migration.',
    params: idParams,
    querystring: noQuery,
    response: {
      200: { ...ref('Manifest'), description: 'The offered VM.', headers: requestIdHeader },
      ...problems('not_found', 'migration_withdrawn', 'migration_released', 'monitor_missing'),
    },
  }
  app.get('/v1/migrations/:id', { schema }, async (request): Promise<ManifestWire> => {
    const offer = offerOf(request)
    return manifestToWire(granted(offer.id, await departures().manifest(offer)))
  })
}

/** Describes a request that changes something: it names its destination, and may be repeated. */
const requestSchema = <B extends 'TakeRound' | 'Arrival' | 'Release'>(body: B) => ({
  tags,
  params: idParams,
  querystring: noQuery,
  body: ref(body),
})

function takeRound(app: App, departures: Source, { log }: Pick<CoordinationDependencies, 'log'>): void {
  const schema = {
    operationId: 'takeRound',
    summary: 'Take a round of the disk',
    description:
      'Takes a round of the disk as it is now, or returns the one with this number. Rounds are numbered from 1. A destination ' +
      'copies each of them completely before it asks for the next one, or for the handover. White space comes before the answer while ' +
      'this host compares clones, and the connection is cut if that fails.',
    ...requestSchema('TakeRound'),
    response: {
      200: { ...ref('Round'), description: 'The round.', headers: requestIdHeader },
      ...problems(
        ...BODY_CODES,
        ...MOVE_CODES,
        'migration_too_early',
        'migration_outdated',
        'migrations_busy',
        'migration_unsupported',
        ...POOL_FAULTS,
      ),
    },
  }
  app.post('/v1/migrations/:id/rounds', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const { number } = request.body
      const move = moveOf(request, request.body)
      const take = async () =>
        roundToWire(number, granted(move.id, await departures().ensureRound(move, number, signal)))
      return sendWhenReady(reply, take(), log)
    }),
  )
}

function handOver(app: App, departures: Source, { log }: Pick<CoordinationDependencies, 'log'>): void {
  const schema = {
    operationId: 'handOver',
    summary: 'Hand the guest over',
    description:
      'From this request on frames for the guest are held, and the guest is saved. The answer comes when the guest is down and ' +
      'the last round of its disk is taken, or earlier, with the stage `handing_over`: then ask again. This host takes the guest ' +
      'back when the handover lasts too long.',
    ...requestSchema('Arrival'),
    response: {
      200: { ...ref('HandOver'), description: 'How far the handover is.', headers: requestIdHeader },
      ...problems(
        ...BODY_CODES,
        ...MOVE_CODES,
        'saved_state_corrupt',
        'storage_inspection_failed',
        'storage_failed',
      ),
    },
  }
  app.post('/v1/migrations/:id/handover', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const move = moveOf(request, request.body)
      return handOverToWire(granted(move.id, await departures().handOver(move, signal)))
    }),
  )
}

/** Routes that end the migration in either way. */
function endMove(app: App, departures: Source): void {
  const release = {
    operationId: 'releaseVm',
    summary: 'Release the VM',
    description:
      'From the answer on only the destination may run the guest. A destination sends this when everything is on its disk, and ' +
      'sends it again until there is an answer: a repeated request gets the same answer, also after the VM was deleted here.',
    ...requestSchema('Release'),
    response: {
      200: { ...ref('MoveStage'), description: 'The VM is released.', headers: requestIdHeader },
      ...problems(...BODY_CODES, ...MOVE_CODES, 'migration_too_early', 'migration_outdated'),
    },
  }
  app.post('/v1/migrations/:id/release', { schema: release }, async (request) => {
    const move = moveOf(request, request.body)
    return granted(move.id, await departures().release(move, request.body.last_round))
  })
  const abort = {
    operationId: 'abortMigration',
    summary: 'Give the VM up',
    description: 'The destination does not take the VM. The guest goes on here at once.',
    ...requestSchema('Arrival'),
    response: {
      200: { ...ref('MoveStage'), description: 'The migration is withdrawn.', headers: requestIdHeader },
      ...problems(...BODY_CODES, 'not_found', 'migration_released', 'migration_not_yours'),
    },
  }
  app.post('/v1/migrations/:id/abort', { schema: abort }, async (request) => {
    const move = moveOf(request, request.body)
    return granted(move.id, await departures().abort(move))
  })
}
