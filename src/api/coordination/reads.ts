import { Type } from 'typebox'
import { limits } from '../../config/limits.ts'
import { closed } from '../../lib/schema-check.ts'
import { noQuery, problems, requestIdHeader } from '../listener/answers.ts'
import { onceOpen, Refused } from '../listener/refused.ts'
import { arrivalSchema, fromSchema } from '../wire/moves.ts'
import { consoleToWire, heldPacketsToWire } from '../wire/moves-to-wire.ts'
import { ref } from '../wire/named.ts'
import { sha256Schema } from '../wire/vm.ts'
import { granted, MOVE_CODES } from './refusals.ts'
import { idParams, moveOf, offerOf, POOL_FAULTS, tags } from './requests.ts'
import { sendStream, streamAnswer, whileConnected } from './streams.ts'
import type { Sha256 } from '../../core/ids.ts'
import type { App } from '../listener/app.ts'
import type { CoordinationDependencies, Departures } from './dependencies.ts'

const FRAMES =
  'Frames in ascending order, each with a checksum, and an end with a digest of all of them. The connection is cut if something ' +
  'fails: continue at the end of the last whole frame. All streams of a host share its bandwidth.'

const streamQuery = Type.Object({ arrival: arrivalSchema, from: fromSchema }, closed)

type Reads = () => Departures['reads']

/** Serves what a destination copies. */
export function readRoutes(app: App, dependencies: CoordinationDependencies): void {
  const reads: Reads = () => onceOpen(dependencies.departures()).reads
  readRound(app, reads, dependencies)
  readMemory(app, reads, dependencies)
  readImage(app, reads, dependencies)
  readConsole(app, reads, dependencies)
  readHeldPackets(app, reads, dependencies)
}

type Logging = Pick<CoordinationDependencies, 'log'>

function readRound(app: App, reads: Reads, { log }: Logging): void {
  const number = Type.String({
    pattern: '^[1-9][0-9]{0,5}$',
    description: 'The number of a round.',
    examples: ['2'],
  })
  const schema = {
    operationId: 'readRound',
    tags,
    summary: 'Read a round of the disk',
    description: `What has changed since the round before. ${FRAMES}`,
    params: Type.Object({ ...idParams.properties, number }, closed),
    querystring: streamQuery,
    response: {
      200: streamAnswer('Frames of the disk, and their end.'),
      ...problems(...MOVE_CODES, 'migrations_busy', ...POOL_FAULTS),
    },
  }
  app.get('/v1/migrations/:id/rounds/:number', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const move = moveOf(request, request.query)
      const round = { number: Number(request.params.number), from: request.query.from ?? 0 }
      const frames = granted(move.id, await reads().roundFrames(move, round, signal))
      return sendStream(reply, frames, log)
    }),
  )
}

function readMemory(app: App, reads: Reads, { log }: Logging): void {
  const schema = {
    operationId: 'readMemory',
    tags,
    summary: 'Read the memory of the guest',
    description: `The memory of a guest that is handed over. ${FRAMES}`,
    params: idParams,
    querystring: streamQuery,
    response: {
      200: streamAnswer('Frames of the memory, and their end.'),
      ...problems(
        ...MOVE_CODES,
        'migration_too_early',
        'migrations_busy',
        'saved_state_corrupt',
        'storage_inspection_failed',
        'storage_failed',
      ),
    },
  }
  app.get('/v1/migrations/:id/memory', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const move = moveOf(request, request.query)
      const frames = granted(move.id, await reads().memoryFrames(move, request.query.from ?? 0, signal))
      return sendStream(reply, frames, log)
    }),
  )
}

function readImage(app: App, reads: Reads, { log }: Logging): void {
  const schema = {
    operationId: 'readImage',
    tags,
    summary: 'Read the kernel or the initrd',
    description:
      'An image of the VM that a start needs. For the digest of any other image there is no such migration.',
    params: Type.Object({ ...idParams.properties, sha256: sha256Schema }, closed),
    querystring: noQuery,
    response: {
      200: streamAnswer('The image.'),
      ...problems(
        'not_found',
        'migration_withdrawn',
        'migration_released',
        'migrations_busy',
        'image_unavailable',
        'storage_inspection_failed',
        'storage_failed',
      ),
    },
  }
  app.get('/v1/migrations/:id/images/:sha256', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const offer = offerOf(request)
      const image = await reads().image(offer, request.params.sha256 as Sha256, signal)
      return sendStream(reply, granted(offer.id, image), log)
    }),
  )
}

function readConsole(app: App, reads: Reads, { log }: Logging): void {
  const schema = {
    operationId: 'readConsole',
    tags,
    summary: 'Read the console',
    description:
      'The newest session of the console, whose cursors stay valid at the destination. 404 also if the VM has none.',
    params: idParams,
    querystring: Type.Object({ arrival: arrivalSchema }, closed),
    response: {
      200: { ...ref('MovedConsole'), description: 'The session.', headers: requestIdHeader },
      ...problems(...MOVE_CODES, 'migration_too_early', 'migrations_busy'),
    },
  }
  app.get('/v1/migrations/:id/console', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const move = moveOf(request, request.query)
      const session = granted(move.id, await reads().console(move, signal))
      if (session !== undefined) return consoleToWire(session)
      throw new Refused({ code: 'not_found', detail: `the VM of migration ${move.id} has no console` })
    }),
  )
}

const heldQuery = Type.Object(
  {
    arrival: arrivalSchema,
    after: Type.Optional(
      Type.Integer({
        minimum: 0,
        description: 'The number of the last packet that the destination has; 0 if there is none.',
      }),
    ),
    wait_ms: Type.Optional(
      Type.Integer({
        minimum: 0,
        maximum: limits.handoverPollMs,
        description: 'Milliseconds for which to wait for a packet, if there is none.',
      }),
    ),
  },
  closed,
)

function readHeldPackets(app: App, reads: Reads, { log }: Logging): void {
  const schema = {
    operationId: 'readHeldPackets',
    tags,
    summary: 'Read the packets that are held',
    description:
      `Packets that came for the guest since it went down for the handover. They are held until the release, and for ${limits.departedFramesMs / 1000} s after it. ` +
      'Packets up to `after` are forgotten once the VM is released.',
    params: idParams,
    querystring: heldQuery,
    response: {
      200: { ...ref('HeldPackets'), description: 'The packets behind `after`.', headers: requestIdHeader },
      ...problems(...MOVE_CODES, 'migration_too_early', 'traffic_failed'),
    },
  }
  app.get('/v1/migrations/:id/held-packets', { schema }, (request, reply) =>
    whileConnected(reply, log, async (signal) => {
      const { after = 0, wait_ms: waitMs = 0 } = request.query
      const move = moveOf(request, request.query)
      return heldPacketsToWire(granted(move.id, await reads().heldPackets(move, { after, waitMs }, signal)))
    }),
  )
}
