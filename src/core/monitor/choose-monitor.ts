import { limits } from '../../config/limits.ts'
import type { MonitorKind } from './monitor-kind.ts'
import type { Accelerator } from './qemu-command.ts'

/** The result of a try of KVM on this host. The speed is absent if it cannot be measured on this architecture. */
export type KvmTry =
  | { readonly opens: false; readonly because: string }
  | { readonly opens: true; readonly runs: false; readonly because: string }
  | { readonly opens: true; readonly runs: true; readonly instructionsPerSecond?: number }

/** Whether KVM runs guests at the speed of the processor, and the reason in words. */
export type KvmJudgement = { readonly isFast: boolean; readonly because: string }

/** Judges what was tried. */
export function judgeKvm(kvm: KvmTry): KvmJudgement {
  if (!kvm.opens) return { isFast: false, because: kvm.because }
  if (!kvm.runs) return { isFast: false, because: `KVM does not run a guest: ${kvm.because}` }
  const { instructionsPerSecond: speed } = kvm
  if (speed === undefined) return { isFast: true, because: 'KVM opens' }
  const words = `${(speed / 1e6).toFixed(1)} million instructions per second`
  return speed >= limits.kvmInstructionsPerSecondMin
    ? { isFast: true, because: `KVM runs a guest at ${words}` }
    : { isFast: false, because: `KVM emulates the processor: it runs a guest at only ${words}` }
}

/** The facts about the host and its configuration. */
export type MonitorQuestion = {
  /** The kind of new VMs, as configured. */
  readonly kind: MonitorKind | 'auto'
  /** QEMU's, as configured. */
  readonly accelerator: Accelerator | 'auto'
  /** Whether each program can be executed. */
  readonly isExecutable: { readonly [K in MonitorKind]: boolean }
  /** Where each program is, or is looked for. */
  readonly programs: { readonly [K in MonitorKind]: string }
  readonly kvm: KvmTry
  /** Why the program of Firecracker cannot be used, although it can be executed. */
  readonly firecrackerRefusal?: string
}

/** One kind of monitor on this host. */
export type MonitorOffer = {
  /** Whether VMs may be created with it. */
  readonly isOffered: boolean
  readonly accelerator: Accelerator
  /** Why it is offered or not, and why with this accelerator. */
  readonly because: string
}

export type MonitorOffers = {
  readonly kinds: { readonly [K in MonitorKind]: MonitorOffer }
  /** The kind of VMs that are created without one. It may be one that is not offered, if the configuration says so. */
  readonly default: MonitorKind
  readonly because: string
}

/**
 * Returns which monitors this host offers, and which one new VMs get. Firecracker has no emulation, so it is chosen
 * only if KVM is fast. It is offered with a slow KVM too, to those who ask for it.
 */
export function chooseMonitor(question: MonitorQuestion): MonitorOffers {
  const { kind } = question
  const judged = judgeKvm(question.kvm)
  const kinds = { qemu: qemuOffer(question, judged), firecracker: firecrackerOffer(question, judged) }
  if (kind !== 'auto') return { kinds, default: kind, because: 'it is configured' }
  const { firecracker } = kinds
  return firecracker.isOffered && judged.isFast
    ? { kinds, default: 'firecracker', because: judged.because }
    : { kinds, default: 'qemu', because: `Firecracker is not chosen: ${firecracker.because}` }
}

function qemuOffer(
  { accelerator, isExecutable, programs }: MonitorQuestion,
  { isFast, because }: KvmJudgement,
): MonitorOffer {
  const chosen = accelerator === 'auto' ? (isFast ? 'kvm' : 'tcg') : accelerator
  const why = accelerator === 'auto' ? because : 'its accelerator is configured'
  return isExecutable.qemu
    ? { isOffered: true, accelerator: chosen, because: why }
    : { isOffered: false, accelerator: chosen, because: notExecutable(programs.qemu) }
}

function firecrackerOffer(
  { isExecutable, programs, kvm, firecrackerRefusal }: MonitorQuestion,
  { because }: KvmJudgement,
): MonitorOffer {
  const refusal = isExecutable.firecracker ? firecrackerRefusal : notExecutable(programs.firecracker)
  return {
    isOffered: refusal === undefined && kvm.opens,
    accelerator: 'kvm',
    because: refusal ?? because,
  }
}

/** Names the program without its folder, because the API shows this. */
const notExecutable = (program: string): string =>
  `${program.slice(program.lastIndexOf('/') + 1)} is not a program that can be run`
