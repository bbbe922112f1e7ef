#version 300 es
#define SQUARE(x) ((x) * (x))
#define TWICE(x) SQUARE(x) + SQUARE(x)
#if defined(SQUARE) && !defined(GL_ES_NO)
#define LAST 3
#else
#error no macros
#endif
precision highp float;
out vec4 c;
void main() { c = vec4(TWICE(0.5), LAST, __VERSION__, 1); }
