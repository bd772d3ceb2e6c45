import type { SourceRefusal } from './departure.ts'

/** Thrown in the middle of a stream when the source does not let its destination read on, because it has decided. */
export class StreamRefused extends Error {
  override readonly name = 'StreamRefused'
  readonly answer: SourceRefusal

  constructor(answer: SourceRefusal, from: number) {
    super(`the source does not send on from byte ${from}: ${answer}`)
    this.answer = answer
  }
}
