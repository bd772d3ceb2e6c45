/**
 * The catalogue of problems: one entry for each code that the product can return or show. An entry makes the row of
 * `docs/errors.md`, the title and the example of the OpenAPI document, and the advice of `vmhostctl`.
 *
 * The caller must fix a rejection (HTTP 4xx). A fault belongs to the host: it is shown in `observed.error`, and becomes
 * a 503 if a read needs the host.
 */
type Entry = {
  /** The title of the problem, without a full stop. */
  readonly title: string
  /** Says more than the title does; without it the page shows the title. Markdown: code spans and nothing else. */
  readonly meaning?: string
  /** Advice for an operator or the author of a controller. Markdown: code spans and nothing else. */
  readonly remedy: string
  /** A detail or message with this code, exactly as the code writes it. A test composes it from `writtenBy`. */
  readonly example: string
  /** The source files that hold the texts of the example, the one that knows most about the problem first. */
  readonly writtenBy: readonly string[]
  /** Texts of other programs in the example, such as the kernel's. */
  readonly quotes?: readonly string[]
  /**
   * The advice of `vmhostctl`. Without it, the client gives the remedy of a fault, and nothing for a rejection, whose
   * detail already says what to do.
   */
  readonly advice?: Advice
}

/** Lines with placeholders that `src/ctl/advice.ts` fills in: `{name}` and `{kind}` of the resource, and others. */
type Lines = readonly string[]

/** Lines for every command, or for commands about one kind of resource. */
type Advice = Lines | { readonly [K in 'vm' | 'snapshot' | 'image']?: Lines }

export type RejectionEntry = Entry & {
  readonly status: number
  /** Seconds after which the same request may succeed, because what stands in its way passes by itself. */
  readonly retryAfterSeconds?: number
}

/**
 * Says when another try may help: `soon` (busy), `backoff` (a fault that heals), `on-change` (another desired state
 * should help; otherwise it is tried slowly).
 */
export type FaultEntry = Entry & { readonly retry: 'soon' | 'backoff' | 'on-change' }

/** The entries of one subject, by code. */
export type Entries = {
  readonly rejections?: Readonly<Record<string, RejectionEntry>>
  readonly faults?: Readonly<Record<string, FaultEntry>>
}
