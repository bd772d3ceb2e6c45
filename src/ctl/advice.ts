import { ApiProblem, UnexpectedAnswer } from '../client/api-problem.ts'
import { ConnectionFailed } from '../client/connection-failed.ts'
import { errorChain } from '../log/error-chain.ts'
import { faults, rejections } from '../core/problems/catalogue.ts'
import { scrub } from '../log/scrub.ts'
import { unreachable } from '../lib/assert.ts'
import { unescapedName } from '../lib/json-pointer.ts'
import { printable } from '../lib/text.ts'
import { certificateFaults, commonNameOf } from './profile.ts'
import { CtlError } from './ctl-error.ts'
import { exitStatus } from './exit-status.ts'
import type { Arguments, Kind } from './command.ts'
import type { ExitStatus } from './exit-status.ts'
import type { FailureKind } from '../client/connection-failed.ts'
import type { Problem } from '../client/api-problem.ts'
import type { Profile } from './profile.ts'

/** A failure as it is printed: what is wrong, what to do, and the exit status. */
export type Explanation = {
  readonly message: string
  readonly code: string
  readonly status: ExitStatus
  readonly advice: readonly string[]
  /** The daemon's answer. */
  readonly problem?: Problem | undefined
  /** The host of the daemon that failed, unless that is the daemon of the command. */
  readonly host?: string | undefined
}

type Circumstances = {
  readonly profile: Profile | undefined
  /** Whether the profile is that of another daemon than the command's own. */
  readonly isOther?: boolean | undefined
  /** Subject of the command, with a placeholder if it has no name. */
  readonly kind: Kind
  readonly name: string
  /** The parsed command line, once there is one. */
  readonly given?: Arguments | undefined
  /** Whether a repeat of the command does again what is done. */
  readonly beginsAgain?: true | undefined
  readonly nowMs: number
}

/** Explains any error that a command threw. Its words do not repeat what grants access in a URL of the command line. */
export function explain(error: unknown, circumstances: Circumstances): Explanation {
  const plain = explainAny(error, { ...circumstances, name: scrub(circumstances.name) })
  const { profile, isOther = false } = circumstances
  const explanation = isOther && profile !== undefined ? ofOther(plain, error, profile) : plain
  return { ...explanation, message: scrub(printable(explanation.message)) }
}

/** Names the host of another daemon, and directs the commands of the advice to it. */
function ofOther(explanation: Explanation, error: unknown, profile: Profile): Explanation {
  const { message, advice } = explanation
  const host = new URL(profile.url).hostname
  return {
    ...explanation,
    // A failure to connect names the address.
    message: error instanceof ConnectionFailed ? message : `${host}: ${message}`,
    advice: advice.map((line) => line.replaceAll(COMMAND_THERE, () => commandFor(profile.path))),
    host,
  }
}

/** Finds commands for the daemon that failed. A move is a command to its source, which is that of the command. */
const COMMAND_THERE = /\bvmhostctl(?= )(?! vm migrate )/g

/** Returns how commands begin that go to the daemon of a profile. */
export const commandFor = (profile: string | undefined): string =>
  profile === undefined ? 'vmhostctl' : `vmhostctl --profile ${shellWord(profile)}`

/** Quotes a word that a shell would take apart. */
const shellWord = (word: string): string =>
  /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", String.raw`'\''`)}'`

function explainAny(error: unknown, circumstances: Circumstances): Explanation {
  if (error instanceof CtlError) {
    const { code, status, advice, problem, host } = error
    return { message: errorChain(error), code, status, advice, problem, host }
  }
  if (error instanceof ApiProblem) return explainProblem(error, circumstances)
  if (error instanceof ConnectionFailed) {
    const kind = kindSeen(error, circumstances)
    return {
      message: errorChain(error),
      code: `connection_${kind}`,
      status: exitStatus.unreachable,
      advice: connectionAdvice(kind, circumstances),
    }
  }
  const { path = 'the profile', url = '' } = circumstances.profile ?? {}
  if (error instanceof UnexpectedAnswer) {
    const advice = [`something else is answering at ${url}: is url in ${path} right?`]
    return { message: error.message, code: 'unexpected_answer', status: exitStatus.unreachable, advice }
  }
  return {
    message: `a bug: ${errorChain(error)}`,
    code: 'bug',
    status: exitStatus.failed,
    advice: stackOf(error),
  }
}

const stackOf = (error: unknown): string[] =>
  error instanceof Error
    ? (error.stack ?? '')
        .split('\n')
        .slice(1, 6)
        .map((line) => line.trim())
    : []

function explainProblem({ problem }: ApiProblem, circumstances: Circumstances): Explanation {
  const { code, detail, errors = [], request_id: request } = problem
  // The detail of a malformed request already repeats its findings.
  const reported = errors.filter((finding) => !detail.includes(finding.detail))
  return {
    message: withOptions(detail, circumstances.given),
    code,
    status: code === 'starting_up' ? exitStatus.unreachable : exitStatus.failed,
    advice: [
      ...reported.map((finding) => withOptions(`${finding.pointer} ${finding.detail}`, circumstances.given)),
      ...problemAdvice({ code, detail }, circumstances),
      `code ${code}, request ${request}; all codes: ${circumstances.profile?.url ?? ''}/docs/errors#${code}`,
    ],
    problem,
  }
}

/** Returns the advice of the catalogue for a problem; none for a code of a newer daemon. */
function problemAdvice(
  { code, detail }: Pick<Problem, 'code' | 'detail'>,
  { profile = NO_PROFILE, kind, name }: Circumstances,
): string[] {
  const values: Readonly<Record<string, () => string>> = {
    name: () => name,
    kind: () => kind,
    certificate: () => profile.files.cert || 'the certificate',
    common_name: () => commonNameOf(profile) ?? 'an unknown name',
    fingerprint: () => fingerprintIn(detail),
  }
  return catalogueAdvice(code, kind).map((line) =>
    line.replaceAll(/\{(\w+)\}/g, (placeholder, value: string) => values[value]?.() ?? placeholder),
  )
}

function catalogueAdvice(code: string, kind: Kind): readonly string[] {
  const fault = faultOf(code)
  const entry = Object.hasOwn(rejections, code) ? rejections[code as keyof typeof rejections] : fault
  const { advice = fault === undefined ? [] : [fault.remedy] } = entry ?? {}
  return 'length' in advice ? advice : (advice[kind] ?? [])
}

type FaultEntry = (typeof faults)[keyof typeof faults]

/** Returns what the catalogue says of a fault, its remedy as plain text; undefined for a code of a newer daemon. */
export function faultOf(code: string): FaultEntry | undefined {
  if (!Object.hasOwn(faults, code)) return undefined
  const entry = faults[code as keyof typeof faults]
  return { ...entry, remedy: entry.remedy.replaceAll('`', '') }
}

/** Returns the fingerprint in the detail of `ssh_host_key_changed`, which has it in the form of a query. */
function fingerprintIn(detail: string): string {
  const [fingerprint = 'FINGERPRINT'] =
    /(?<=accept_host_key=)SHA256:(?:[a-z0-9+/]|%2[bf]){43}/i.exec(detail) ?? []
  return decodeURIComponent(fingerprint)
}

const NO_PROFILE: Profile = {
  path: '',
  url: '',
  ca: '',
  cert: '',
  key: '',
  files: { ca: '', cert: '', key: '' },
}

/** Returns the kind of a failure: an end before the answer is a refusal if our certificate has a fault. */
function kindSeen({ kind }: ConnectionFailed, { profile, nowMs }: Circumstances): FailureKind {
  if (kind !== 'dropped' || profile === undefined) return kind
  return certificateFaults(profile, nowMs).length > 0 ? 'unwelcome' : kind
}

function connectionAdvice(
  kind: FailureKind,
  { profile = NO_PROFILE, name, beginsAgain, nowMs }: Circumstances,
): string[] {
  const { path, url, files } = profile
  switch (kind) {
    case 'refused':
      return [`on that host: systemctl status vmhostd`, `or is url in ${path} wrong? it is ${url}`]
    case 'unresolved':
    case 'unreachable':
      return [`is url in ${path} right? it is ${url}`]
    case 'late':
      return ['on that host: systemctl status vmhostd, and journalctl --unit=vmhostd']
    case 'untrusted':
      return [
        `ca in ${path} is ${files.ca}: it must be the ca.crt of that host`,
        'if it is, another machine is answering under this name: stop here',
      ]
    case 'wrong_use':
      return [
        'it must have the usage serverAuth: on that host, put a certificate of a server in its place; vmhostd doctor says which file it is',
        'if doctor finds nothing wrong, a client of the host answers under its name: stop here',
      ]
    case 'wrong_name':
      return [
        `write one of those names into url in ${path}, which is ${url}`,
        'or add this name to the certificate of the host: put ca.key beside ca.crt there, and run vmhostd certificate renew --san NAME',
      ]
    case 'expired':
      return [
        'is the clock of this machine right?',
        'if it is right, the host needs a new certificate: put ca.key beside ca.crt there, and run vmhostd certificate renew, which says if its authority must be replaced',
      ]
    case 'unwelcome':
      return unwelcomeAdvice(profile, nowMs)
    case 'dropped':
      return [
        againOf(name, beginsAgain),
        `if it ends each time, cert in ${path}, which is ${files.cert}, may be revoked, not valid by the clock of that host, or of another authority than those that the host trusts: journalctl --unit=vmhostd | grep handshake`,
      ]
    case 'not_tls':
      return [
        `is the port in ${url} that of the controller API? see controller.port of the host's configuration`,
      ]
    case 'broken':
      return [againOf(name, beginsAgain), 'on that host: journalctl --unit=vmhostd']
    default:
      return unreachable(kind)
  }
}

const againOf = (name: string, beginsAgain: true | undefined): string =>
  beginsAgain === true ? lookFirst(name) : 'run the command again; that is safe'

const lookFirst = (name: string): string =>
  `the change may be stored, and repeating it would do it twice: check with vmhostctl events --vm ${name}`

function unwelcomeAdvice(profile: Profile, nowMs: number): string[] {
  const wrong = certificateFaults(profile, nowMs)
  if (wrong.length > 0)
    return [...wrong, `use the controller's certificate of that host as cert in ${profile.path}`]
  return [
    `cert in ${profile.path} is ${profile.files.cert}: it must be signed by the authority that the host trusts`,
    'the log of the host has the reason: journalctl --unit=vmhostd | grep handshake',
  ]
}

type Origin = { readonly option: string; readonly unit?: string }

/** Options by the member of a request that they set, with the unit that the daemon uses. */
const ORIGINS: ReadonlyMap<string, Origin> = new Map<string, Origin>([
  ['/compute/cpu_millicores', { option: 'cpu', unit: 'millicores' }],
  ['/cpu_millicores', { option: 'cpu', unit: 'millicores' }],
  ['/compute/memory_mib', { option: 'memory', unit: 'MiB' }],
  ['/memory_mib', { option: 'memory', unit: 'MiB' }],
  ['/compute/sleep_after_idle_seconds', { option: 'sleep-after', unit: 'seconds' }],
  ['/sleep_after_idle_seconds', { option: 'sleep-after', unit: 'seconds' }],
  ['/disk/size_mib', { option: 'disk', unit: 'MiB' }],
  ['/network/ipv4_address', { option: 'ipv4' }],
  ['/ipv4_address', { option: 'ipv4' }],
  ['/network/ipv6_address', { option: 'ipv6' }],
  ['/ipv6_address', { option: 'ipv6' }],
  ['/network/ipv6_prefix', { option: 'ipv6-prefix' }],
  ['/ipv6_prefix', { option: 'ipv6-prefix' }],
  ['/network/mac_address', { option: 'mac' }],
  ['/mac_address', { option: 'mac' }],
  ['/image/kernel_arguments', { option: 'kernel-arguments' }],
  ['/kernel_arguments', { option: 'kernel-arguments' }],
  ['/user_data', { option: 'user-data' }],
])

const LABEL = '/labels/'
/** The daemon's placeholder for a name that is not plain. */
const HIDDEN = '…'
const PLAIN_KEY = /^[A-Za-z0-9_.-]{1,64}=/

/** Finds the pointer to a member that the daemon complains about. The key of a label may hold anything. */
const POINTER = /\/labels\/.+?(?= must )|\/[a-z_0-9]+(?:\/[a-z_0-9]+)?(?= must )/g

/**
 * Adds to each member in an error text the option that set it, as it was typed but for secrets, and to a parameter that
 * is advised the option that sends it. A member from a file has no option.
 */
export function withOptions(text: string, given: Arguments | undefined): string {
  const withSet = text.replaceAll(POINTER, (pointer) => {
    const typed = given === undefined ? undefined : typedFor(pointer, given)
    return typed === undefined ? pointer : `${pointer} (${scrub(typed)})`
  })
  return withSet.replace(SOURCE_LOST, '$& (vmhostctl vm rm --source-lost)')
}

/** The daemon alone knows whether this deletion may be asked for, so no advice of a code has it. */
const SOURCE_LOST = /\bsource_lost=true\b/

function typedFor(pointer: string, given: Arguments): string | undefined {
  if (pointer.startsWith(LABEL)) {
    const key = unescapedName(pointer.slice(LABEL.length))
    const isMeant = (label: string): boolean =>
      key === HIDDEN ? !PLAIN_KEY.test(label) : label.startsWith(`${key}=`)
    const labels = given.texts('label').filter(isMeant)
    return labels.length === 0 ? undefined : labels.map((label) => `--label ${label}`).join(', ')
  }
  const origin = ORIGINS.get(pointer)
  const value = origin === undefined ? undefined : given.text(origin.option)
  if (origin === undefined || value === undefined) return undefined
  return `--${origin.option} ${value}${origin.unit === undefined ? '' : `, in ${origin.unit}`}`
}
