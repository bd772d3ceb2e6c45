declare const brand: unique symbol

/** A primitive that was checked once and carries the proof in its type. */
export type Brand<T, Name extends string> = T & { readonly [brand]: Name }
