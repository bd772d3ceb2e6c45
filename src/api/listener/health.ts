import { Type } from 'typebox'
import { Refused } from './refused.ts'
import { problems, noQuery, requestIdHeader } from './answers.ts'
import type { TProperties } from 'typebox'
import type { App } from './app.ts'

const statusSchema = <S extends string, P extends TProperties>(status: S, description: string, more: P) =>
  Type.Object(
    { status: Type.Literal(status, { type: 'string' }), ...more },
    { description, headers: requestIdHeader },
  )

const version = Type.String({ description: 'Version of vmhostd.', examples: ['1.2.3'] })

export type Health = {
  /** The version of this build. */
  readonly version: string
  /** The tasks that readiness still waits for, in words ("console adoption"); empty when the daemon is ready. */
  readonly waitingFor: () => readonly string[]
}

/** The problems of liveness, which does not wait for the start. */
const { 503: _starting, ...whileAlive } = problems()

/** Returns the body of an answer of liveness. */
export const aliveAnswer = (ofBuild: string) => ({ status: 'alive' as const, version: ofBuild })

/** Serves liveness and readiness. They say nothing about VMs, but need the same certificate. */
export function healthRoutes(app: App, dependencies: Health): void {
  app.get(
    '/healthz',
    {
      schema: {
        operationId: 'getHealth',
        tags: ['Health'],
        summary: 'Whether the daemon is alive',
        description: 'Answers as soon as the listener is up, even while the daemon is starting.',
        querystring: noQuery,
        response: { 200: statusSchema('alive', 'The daemon is alive.', { version }), ...whileAlive },
      },
    },
    async () => aliveAnswer(dependencies.version),
  )
  app.get(
    '/readyz',
    {
      schema: {
        operationId: 'getReadiness',
        tags: ['Health'],
        summary: 'Whether the daemon is ready',
        description: 'The daemon is ready when the store is open and the running guests have been adopted.',
        querystring: noQuery,
        response: { 200: statusSchema('ready', 'The daemon is ready.', {}), ...problems() },
      },
    },
    async () => {
      const waitingFor = dependencies.waitingFor()
      if (waitingFor.length > 0) {
        throw new Refused({ code: 'starting_up', detail: `waiting for ${waitingFor.join(' and ')}` })
      }
      return { status: 'ready' as const }
    },
  )
}
