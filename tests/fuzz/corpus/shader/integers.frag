#version 300 es
precision highp float;
uniform sampler2D u_image0;
in vec2 v_texCoord;
out vec4 fragColor;
uint pcg(uint v) { uint s = v * 747u + 28913u; uint w = ((s >> ((s >> 28u) + 4u)) ^ s) * 2777u; return (w >> 22u) ^ w; }
void main() { uint n = pcg(uint(gl_FragCoord.x) + pcg(uint(gl_FragCoord.y))); fragColor = vec4(float(n & 255u), float((n >> 8) & 255u), float((n >> 16) & 255u), 255.0) / 255.0; }
