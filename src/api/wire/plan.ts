import { Type } from 'typebox'
import { renderPlan } from '../../core/plan/step.ts'
import { isObject } from '../../lib/parsed-values.ts'
import { snakeCase } from '../../lib/text.ts'
import { shownText } from './values.ts'
import { given } from '../../lib/given.ts'
import type { Static } from 'typebox'
import type { Plan, Step } from '../../core/plan/step.ts'
import type { OperationId } from '../../core/ids.ts'

const outcomes = ['settled', 'act', 'wait', 'blocked'] as const satisfies readonly Plan['outcome'][]

export const planSchema = Type.Object(
  {
    outcome: Type.Enum(outcomes, {
      type: 'string',
      description:
        '`settled`: nothing to do. `act`: the steps. `wait` and `blocked`: nothing can be done now.',
    }),
    steps: Type.Optional(
      Type.Array(
        Type.Object({
          step: Type.String({ examples: ['network.ensure-tap'] }),
          because: Type.String({ examples: ['there is no device vmt2100000000'] }),
          arguments: Type.Unsafe<Record<string, unknown>>({ type: 'object', additionalProperties: true }),
        }),
        { description: 'In order, up to the first wait.' },
      ),
    ),
    waiting_for: Type.Optional(Type.String({ examples: ['the unit to stop'] })),
    deadline_seconds: Type.Optional(
      Type.Number({
        description:
          'A wait that lasts longer than this counts as a fault. Absent if no length of the wait is a fault, as when it is for another host, for other VMs that wake first, or for an operator.',
      }),
    ),
    blocked: Type.Optional(
      Type.Object({
        step: Type.String(),
        code: Type.String({ description: 'A fault code of /docs/errors.' }),
        because: Type.String(),
      }),
    ),
    text: Type.String({ description: 'The whole plan as text for people.' }),
    operation_id: Type.Optional(
      Type.String({
        description:
          'Id of the newest mutation of the VM; lines of the log carry it. Absent from the plan of a dry run.',
        examples: ['op-01b21dd2138040a1b2c3d4e5'],
      }),
    ),
  },
  {
    description: 'All steps from the present state of the host to the desired state.',
    examples: [
      {
        outcome: 'act',
        steps: [{ step: 'network.ensure-tap', because: 'there is no device vmt2100000000', arguments: {} }],
        text: 'act\n  network.ensure-tap because there is no device vmt2100000000',
      },
    ],
  },
)

export type PlanWire = Static<typeof planSchema>

/** Translates a plan. `operationId` is that of the record that the plan is for. */
export const planToWire = (plan: Plan, operationId?: OperationId): PlanWire => ({
  ...outcomeToWire(plan),
  // Translate line by line, because shownText removes line breaks.
  text: renderPlan(plan)
    .split('\n')
    .map((line) => shownText(line))
    .join('\n'),
  ...given({ operation_id: operationId }),
})

function outcomeToWire(plan: Plan): Omit<PlanWire, 'text' | 'operation_id'> {
  const { outcome } = plan
  switch (outcome) {
    case 'settled':
      return { outcome }
    case 'act':
      return { outcome, steps: plan.steps.map(stepToWire) }
    case 'wait':
      return {
        outcome,
        waiting_for: plan.for,
        ...(plan.deadlineMs === undefined ? {} : { deadline_seconds: plan.deadlineMs / 1000 }),
      }
    case 'blocked': {
      const { step, code, because } = plan
      return { outcome, blocked: { step, code, because: shownText(because) } }
    }
    default:
      return outcome
  }
}

function stepToWire({ kind, because, lane: _lane, ...args }: Step): NonNullable<PlanWire['steps']>[number] {
  return { step: kind, because: shownText(because), arguments: snakeKeys(args) }
}

const snakeKeys = (value: object): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(value).map(([name, member]: [string, unknown]) => [
      snakeCase(name),
      isObject(member) ? snakeKeys(member) : member,
    ]),
  )
