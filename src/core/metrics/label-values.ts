import { ARRIVAL_STAGES } from '../migration/arrival.ts'
import { DEPARTURE_STAGES } from '../migration/departure.ts'
import type { FaultCode } from '../errors.ts'
import type { Plan } from '../plan/step.ts'

/** The type check names a value that is missing here. */
const outcomes: Readonly<Record<Plan['outcome'], true>> = {
  settled: true,
  act: true,
  wait: true,
  blocked: true,
}

export const PLAN_OUTCOMES = Object.keys(outcomes) as readonly Plan['outcome'][]

/** Parts of the metrics that are collected by themselves: one may fail while the others are known. */
export const COLLECTORS = [
  'host',
  'ledger',
  'consoles',
  'staging',
  'vms',
  'vm_cpu',
  'vm_memory',
  'vm_network',
  'vm_disk',
] as const
export type CollectorName = (typeof COLLECTORS)[number]

/** Codes of faults of a host itself, whatever its VMs do. */
export const HOST_FAULT_CODES = [
  'state_unwritable',
  'certificates_unusable',
] as const satisfies readonly FaultCode[]

export const MIGRATION_STAGES = { departure: DEPARTURE_STAGES, arrival: ARRIVAL_STAGES } as const

/** Certificates that a host depends on. */
export const CERTIFICATES_MAX = 8
/** Steps and inspections that a pass can fail at. */
export const STEPS_MAX = 64
/** Codes of faults that one step or inspection can fail with. */
export const CODES_MAX = 128
